#!/usr/bin/env bash
# Print a Chromium or Chrome that opens pages without a screen, installing one on a Debian machine we are root on;
# otherwise say what is missing. With --look nothing is installed. Only the path goes to stdout.
set -euo pipefail

look() {
    local name
    for name in "${HOLDFAST_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
        "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
        if [ -n "$name" ] && command -v "$name" >/dev/null; then
            command -v "$name"
            exit 0
        fi
    done
}

look
if [ "${1:-}" != --look ] && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
    echo "No browser found: installing chromium with apt-get." >&2
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq >&2 &&
        apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2; then
        look
    fi
fi
echo "no browser was found: install Chromium or Chrome (on Debian: apt-get install chromium; on macOS: brew install" \
    "--cask chromium) or name one in HOLDFAST_BROWSER" >&2
exit 1
