#!/usr/bin/env bash
# Print the home of a Java 17 or newer, installing one on a Debian machine we are root on; otherwise say what is missing.
# Only the path goes to stdout, so a caller can write JAVA_HOME="$(scripts/java.sh)".
set -euo pipefail

oldest=17

major() { # the major version of the java in home $1, or 0 where there is none that runs
    local line
    line=$("$1/bin/java" -version 2>&1 </dev/null | grep -m1 ' version "') || { echo 0; return; }
    line=${line#*\"}
    echo "${line%%[!0-9]*}"
}

accept() { # print home $1 and stop when its Java is new enough
    if [ -x "$1/bin/java" ] && [ "$(major "$1")" -ge "$oldest" ]; then
        echo "$1"
        exit 0
    fi
}

look() {
    local home java
    if [ -n "${JAVA_HOME:-}" ]; then accept "$JAVA_HOME"; fi
    if java=$(command -v java); then
        java=$(readlink -f "$java" 2>/dev/null || echo "$java")
        accept "${java%/bin/java}"
    fi
    for home in /usr/lib/jvm/* /opt/java/* /Library/Java/JavaVirtualMachines/*/Contents/Home \
        /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home "$HOME"/.sdkman/candidates/java/*; do
        accept "$home"
    done
}

look
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
    echo "No Java $oldest or newer found: installing openjdk-17-jre-headless with apt-get." >&2
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq >&2 &&
        apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >&2; then
        look
    fi
fi
echo "Spark needs Java $oldest or newer and none was found: install a Java runtime (on Debian or Ubuntu:" \
    "apt-get install openjdk-17-jre-headless; on macOS: brew install openjdk@17) or point JAVA_HOME at one." >&2
exit 1
