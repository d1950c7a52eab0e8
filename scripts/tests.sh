#!/usr/bin/env bash
# All tests, in two tracks side by side: a machine with two cores is idle half the time while Spark plans small jobs.
# Each track runs its parts one after the other, every part whatever became of the one before it. The second track
# prints when the first is done.
set -euo pipefail
cd "$(dirname "$0")/.."

track() { # each argument is the options of one run of pytest
    local options failed=0
    for options in "$@"; do
        # shellcheck disable=SC2086  # the options are words
        .venv/bin/pytest $options || failed=1
    done
    return "$failed"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
track --part=plain --lane=local-cluster >"$log" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true; rm -f "$log"' INT TERM
first=0 second=0
track --part=spark --lane=connect || first=$?
wait "$beside" || second=$?
cat "$log"
if [ "$first" -ne 0 ] || [ "$second" -ne 0 ]; then
    echo "tests failed: $([ "$first" -eq 0 ] || echo 'on Spark or on Connect') $([ "$second" -eq 0 ] || echo 'without Spark or on local-cluster')"
    exit 1
fi
