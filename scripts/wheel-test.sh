#!/usr/bin/env bash
# The wheel in an empty environment: built, installed with what it asks for and nothing else, and used from elsewhere.
# Downloads PySpark, so it takes minutes; `make test` only looks at what the wheel holds.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
.venv/bin/python -m hatchling build -t wheel -d "$place"
"$(scripts/python.sh)" -m venv "$place/empty"
"$place/empty/bin/pip" install --quiet --disable-pip-version-check "$place"/holdfast-*.whl
cd "$place" # so that nothing of the checkout is found
unset PYTHONPATH PYSPARK_PYTHON
export PATH="$place/empty/bin:$PATH"
holdfast --version
holdfast doctor
holdfast tour --quick --out "$place/tour"
holdfast history --help >/dev/null
echo "the wheel works in an empty environment"
