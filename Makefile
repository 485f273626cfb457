PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
INSTALL := command -v $(PYTHON) > /dev/null || { echo "headroom: $(PYTHON) is not installed: install Python 3.11 or newer, or set PYTHON=/path/to/it." >&2; exit 1; }; $(PYTHON) config/install.py

.PHONY: help install up test faults lint format bench screenshots wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make up      everything on this machine: http://127.0.0.1:8000 (PORT=8001 for another port)"
	@echo "make test    the tests, on real servers of their own"
	@echo "make faults  the long fault and property tests"
	@echo "make lint    ruff, mypy, import rules, migrations"
	@echo "make format  lets ruff format and fix"
	@echo "make bench   measures, side by side with peers"
	@echo "make screenshots  pictures of the running demo, for the README"
	@echo "make wheel   builds dist/headroom_edge-….whl: only what a service needs to enforce"
	@echo "make clean   removes .venv and the caches; the data in .headroom stays"

install:
	@$(INSTALL) requirements-dev.txt

up:
	@$(INSTALL) requirements.txt
	@$(BIN)/python -m config.up --end-with-parent

test: install
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadgroup

faults: install
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --timeout 3600 -m "faults_long"

lint: install
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -W "ignore:Got an error checking a consistent migration history" manage.py makemigrations --check --dry-run

format: install
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: install
	@$(BIN)/python -m benchmarks

# Starts nothing itself: `make up` has to run.
screenshots: install
	@$(BIN)/python -m tests.browser.screenshots

# pip fetches what builds it: who only wants the wheel needs none of the developer's tools.
wheel:
	@$(INSTALL) requirements.txt
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
