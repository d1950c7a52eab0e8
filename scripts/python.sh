#!/usr/bin/env bash
# Print the path of a Python 3.11 or newer that can make virtual environments, or say what is missing.
set -euo pipefail

look() { # $1: what the interpreter must be able to do
    local name
    for name in ${PYTHON:-} python3 python3.11 python3.12 python3.13; do
        if "$name" -c "import sys; assert sys.version_info >= (3, 11); $1" >/dev/null 2>&1; then
            "$name" -c 'import sys; print(sys.executable)'
            exit 0
        fi
    done
}

look "import venv, ensurepip"
if [ -n "$( (look pass) )" ]; then
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
        echo "Python has no venv module: installing python3-venv with apt-get." >&2
        export DEBIAN_FRONTEND=noninteractive
        if apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends python3-venv >&2; then
            look "import venv, ensurepip"
        fi
    fi
    echo "This Python cannot make virtual environments: install its venv module" \
        "(on Debian or Ubuntu: apt-get install python3-venv)." >&2
    exit 1
fi
echo "Holdfast needs Python 3.11 or newer and none was found: install one, or name it with PYTHON=/path/to/python make." >&2
exit 1
