#!/usr/bin/env bash
# The checks and all tests, in two tracks side by side: a machine with two cores is idle half the time while Spark plans
# small jobs. Each track takes the next run that no track has taken, whatever became of the runs before it; those without
# Spark come last and are short, so that both tracks end together. The second track prints when the first is done.
#
# `quick` runs the checks and the tests that a person waits for before every commit: without Spark, and over soon.
#
# Files of tests go to memory where there is room: stores flush what they write, and a disk takes milliseconds each time.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-all}" in
all)
    runs=(check '--part=spark' '--lane=local-cluster' '--lane=connect')
    runs+=('--part=plain --share=1/4' '--part=plain --share=2/4' '--part=plain --share=3/4' '--part=plain --share=4/4')
    ;;
quick)
    export HOLDFAST_DEPTH="${HOLDFAST_DEPTH:-0.2}"
    runs=(check '--quick -q --share=1/3' '--quick -q --share=2/3' '--quick -q --share=3/3')
    ;;
*)
    echo "tests.sh runs all or quick, not $1" >&2
    exit 2
    ;;
esac
room_kb=$((6 * 1024 * 1024))

in_memory() { # a new directory in memory that programs can run from, or nothing where there is none or too little room
    local free home
    free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || return 0
    if [ "${free:-0}" -lt "$room_kb" ] || ! home=$(mktemp -d /dev/shm/hf.XXXXXX 2>/dev/null); then return 0; fi
    if printf '#!/bin/sh\n' >"$home/program" && chmod +x "$home/program" && "$home/program" 2>/dev/null; then
        echo "$home"
    else
        rm -rf "$home"
    fi
}

run() { # the checks, or the tests that these options choose
    # shellcheck disable=SC2086  # the options are words
    if [ "$1" = check ]; then make --no-print-directory check; else .venv/bin/pytest $1; fi
}

track() { # every run that nobody has taken
    local number failed=0
    for number in "${!runs[@]}"; do
        if mkdir "$taken/$number" 2>/dev/null; then run "${runs[$number]}" || failed=1; fi
    done
    return "$failed"
}

work=$(mktemp -d)
memory=$(in_memory)
trap 'rm -rf "$work" ${memory:+"$memory"}' EXIT
if [ -n "$memory" ]; then export TMPDIR="$memory" SPARK_LOCAL_DIRS="$memory"; fi
taken="$work/taken" log="$work/log"
mkdir "$taken"
set -m # the second track is a process group, so that it ends as a whole
track >"$log" 2>&1 &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true; exit 130' INT TERM
first=0 second=0
track || first=$?
wait "$beside" || second=$?
cat "$log"
if [ "$first" -ne 0 ] || [ "$second" -ne 0 ]; then
    echo "tests failed: see the summaries above of$([ "$first" -eq 0 ] || echo ' the first')$([ "$second" -eq 0 ] || echo ' the second') track"
    exit 1
fi
