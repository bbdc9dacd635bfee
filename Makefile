# Two commands on a machine with Python 3.11 or newer, git and make: `make demo`, `make test`. Each sets up .venv itself.

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
# The first Python that is new enough; say `make PYTHON=/path/to/python …` for another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
# What is installed depends on pyproject.toml alone: another content, another stamp, and pip runs again.
STAMP := $(VENV)/.ready-$(shell cksum < pyproject.toml | cut -d ' ' -f 1)
RELAYS := tests/relays
PYTEST := $(BIN)/python -m pytest
# In memory where there is a place for it: durable writes are most of the time otherwise.
MEMORY := $(if $(wildcard /dev/shm/.),--basetemp=/dev/shm/relay-audit-tests-$(shell id -u))
# pip learnt `--group` in 25.1.
PIP := $(BIN)/python -m pip install --quiet
NEW_PIP := $(PIP) --upgrade 'pip>=25.1'

.PHONY: demo test lint docs golden wheel-test test-relays test-browser test-deep test-seeds mutation bench soak release clean help

help:
	@echo 'make demo         the whole audit against the built-in lab, ending with two reports'
	@echo 'make test         the tests (at most 5 minutes on 2 cores)'
	@echo 'make lint         ruff, mypy --strict'
	@echo 'make docs         writes the generated documents'
	@echo 'make golden       writes the golden reports anew, to be reviewed in the diff'
	@echo 'make wheel-test   builds the wheel and uses it outside the checkout'
	@echo 'make test-deep    the crash matrix'
	@echo 'make test-relays  real relay software from the package index, each in its own environment'
	@echo 'make test-browser reports in an installed Chromium'
	@echo 'make bench        ratios: start-up, CPU per exchange, wall time; check 5 against a bare read'
	@echo 'make mutation     which small faults in the judging code the unit tests notice (hours; ARGS="--sample 40 gate")'
	@echo 'make release      sdist, wheel, digests, locked dependencies, bill of materials'
	@echo 'make test-seeds   forty seeds per honest scenario and dialect, the table over HTTP and years on; make soak: 500'

demo: $(STAMP)-run
	$(BIN)/relay-audit demo

test: $(STAMP)-test
	$(PYTEST) -n 2 --dist loadgroup $(MEMORY)

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/agentskills validate skills/relay-audit
	$(BIN)/agnix skills
	$(BIN)/zizmor --offline --no-progress --quiet --min-severity low .github action.yml examples/ci/github-nightly.yml

docs: $(STAMP)-dev
	$(BIN)/python -m relay_audit.schema --write
	$(BIN)/python scripts/refresh_readme.py --write

golden: $(STAMP)-test
	$(BIN)/python -m tests.report.golden

wheel-test: $(STAMP)-dev
	$(PYTEST) -m wheel tests/test_wheel.py

test-relays: $(STAMP)-test
	$(PYTEST) -m relays -rs $(RELAYS)

test-browser: $(STAMP)-test
	$(PYTEST) -m browser

test-seeds: $(STAMP)-test
	$(PYTEST) -m seeds -n 2 $(MEMORY)

test-deep: $(STAMP)-test
	$(PYTEST) -m deep -n 2 --dist loadgroup $(MEMORY)

# An environment of its own: mutmut brings a syntax-tree library and a terminal interface that nothing else needs.
MUTATION := build/mutation
MUTATION_STAMP := $(MUTATION)/$(notdir $(STAMP))
$(MUTATION_STAMP): $(BIN)/python
	$(BIN)/python -m venv $(MUTATION)
	$(MUTATION)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(MUTATION)/bin/python -m pip install --quiet --editable '.[media]' --group test --group mutation
	@touch $@

mutation: $(MUTATION_STAMP)
	PYTHONPATH=. nice -n 15 $(MUTATION)/bin/python scripts/mutation.py $(ARGS)

bench: $(STAMP)-test
	$(BIN)/python bench/run.py
	$(BIN)/python bench/verify.py
	$(BIN)/python -m bench.media

soak: $(STAMP)-test
	$(PYTEST) -m soak -n 2
	TARIFF_RUNS=1000 $(PYTEST) -m deep -n 2 tests/test_honest_tariff.py

release: $(STAMP)-dev
	$(BIN)/python scripts/release.py

clean:
	rm -rf build mutants dist .mypy_cache .ruff_cache .pytest_cache

$(STAMP)-run: $(BIN)/python
	$(NEW_PIP)
	$(PIP) --editable .
	@touch $@

$(STAMP)-test: $(BIN)/python
	$(NEW_PIP)
	$(PIP) --editable '.[media,pdf,timestamp]' --group test
	@touch $@ $(STAMP)-run

$(STAMP)-dev: $(BIN)/python
	$(NEW_PIP)
	$(PIP) --editable '.[media,pdf,timestamp]' --group test --group dev
	@touch $@ $(STAMP)-test $(STAMP)-run

# An environment that works is used as it is.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or newer was found (python3.13, python3.12, python3.11, python3).' >&2; \
	  echo 'Debian, Ubuntu:  sudo apt-get install python3 python3-venv     macOS:  brew install python@3.13' >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo 'This Python cannot make virtual environments. Debian, Ubuntu:' >&2; \
	  echo "  sudo apt-get install $$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" >&2; exit 1; }
