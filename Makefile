# Two commands to know: `make demo` shows what Holdfast does, `make test` checks everything.
# Both set up what they need: a virtual environment from requirements.lock, and Java.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := .venv/bin
READY := .venv/.ready
BENCHES := bench/open.py bench/scan.py bench/write.py bench/commits.py bench/dml.py bench/maintain.py bench/changes.py \
	bench/concurrency.py bench/take.py bench/lookup.py bench/by_row_id.py bench/nearest.py bench/iceberg.py \
	bench/iceberg_write.py bench/iceberg_spark.py
BENCH_ARGS ?=
TOUR_ARGS ?=
PART ?=

# Spark workers run the interpreter that has the packages, whatever python3 means on the PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

# Expanded in each recipe that starts Spark, after the `java` target has made sure that it succeeds.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)"

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "  make %-11s %s\n", $$1, $$2}'

.PHONY: venv
venv: $(READY) ## make the virtual environment from the lock

$(READY): requirements.lock pyproject.toml
	@if [ ! -x $(BIN)/python ]; then python=$$(scripts/python.sh); "$$python" -m venv .venv; fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: java
java: ## find or install Java 17 or newer, and print where it is
	@scripts/java.sh

.PHONY: browser
browser: ## find or install a browser that opens reports, and print where it is
	@scripts/browser.sh || [ "$${HOLDFAST_BROWSER_REQUIRED:-}" != 1 ]

.PHONY: demo
demo: $(READY) java ## a tour on tables made on the spot; ends with a report, build/tour/holdfast-tour.html
	@$(WITH_JAVA) $(BIN)/holdfast tour --out build/tour $(TOUR_ARGS)

.PHONY: check
check: $(READY) ## lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: quick
quick: $(READY) ## before every commit, in three minutes: check, and the tests without Spark that are over soon
	@scripts/tests.sh quick

.PHONY: test
test: $(READY) java browser ## everything: check, the whole suite, and the marked tests on the other two ways to run Spark
	@$(WITH_JAVA) scripts/tests.sh

.PHONY: s3-server
s3-server: $(READY) ## fetch an S3 server and Hadoop's connector into build/s3, for s3-test
	@scripts/s3-server.sh

.PHONY: s3-test
s3-test: $(READY) java ## tables in a bucket of a real S3 server: without Spark, with Arrow in its tasks, with hadoop-aws
	@if scripts/s3-server.sh >/dev/null; then failed=0; \
	for lane in s3 s3-arrow s3-hadoop; do $(WITH_JAVA) $(BIN)/pytest --lane=$$lane || failed=1; done; exit $$failed; \
	else echo "s3-test is skipped"; fi

.PHONY: soak
soak: $(READY) java ## the deep tests, a hundred times as deep, in parts of an hour: PART=name runs one, PART=all all
	@$(WITH_JAVA) $(BIN)/python scripts/soak.py $(PART)

.PHONY: interop
interop: $(READY) java ## tables of other engines, and ours in their hands: writes docs/compatibility.md
	$(WITH_JAVA) HOLDFAST_GOLDEN_REQUIRED=1 $(BIN)/pytest -m golden
	$(WITH_JAVA) $(BIN)/python -m tests.dropin.recipes
	$(WITH_JAVA) $(BIN)/python -m tests.interop

.PHONY: bench
bench: $(READY) java ## every benchmark; BENCH_ARGS=--quick for a short look
	@for script in $(BENCHES); do $(WITH_JAVA) $(BIN)/python "$$script" $(BENCH_ARGS); done

.PHONY: docs
docs: $(READY) ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: wheel
wheel: $(READY) ## the package, in dist
	$(BIN)/python -m hatchling build -t wheel -d dist

.PHONY: wheel-test
wheel-test: $(READY) java ## the wheel in an empty environment, in use; minutes, and a download of PySpark
	$(WITH_JAVA) scripts/wheel-test.sh

.PHONY: lock
lock: $(READY) ## resolve requirements.lock again (UPGRADE=--upgrade for newer versions)
	$(BIN)/pip-compile $(UPGRADE) --quiet --extra=dev --extra=connect --extra=vector --extra=iceberg --generate-hashes --allow-unsafe --strip-extras \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
		--no-build-isolation --output-file=requirements.lock pyproject.toml

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf .venv .venv-peers .venv-verify build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
