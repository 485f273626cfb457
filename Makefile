PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than the two cores of a small machine: many tests wait for a process that they have killed.
JOBS ?= 3
INSTALL := command -v $(PYTHON) > /dev/null || { echo "headroom: $(PYTHON) is not installed; install Python 3.11 or newer, or set PYTHON=/path/to/python." >&2; exit 1; }; $(PYTHON) config/install.py

.PHONY: help install up test sweeps test-all faults lint format requirements messages schema sbom audit bench screenshots wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make up           run everything on this machine: http://127.0.0.1:8000 (PORT=8010 for another port)"
	@echo "make up CLUSTER=1 the same, with the counters on a Valkey cluster of six nodes"
	@echo "make test         run the tests, on their own PostgreSQL and Valkey"
	@echo "make test-all     run the tests and then the widest sweeps, as CI does"
	@echo "make faults       run the long fault and property tests"
	@echo "make lint         run ruff, mypy, the import rules and the check for missing migrations"
	@echo "make format       format and fix the code with ruff"
	@echo "make requirements write the requirements files from the .in files; UPGRADE=1 also renews what they depend on"
	@echo "make messages     write the module of Envoy's messages from headroom_edge/gateway/rls/messages.proto"
	@echo "make schema       write tenants/schema.sql, which an empty database loads instead of running every migration"
	@echo "make sbom         write dist/headroom.cdx.json, the list of all packages that run (CycloneDX)"
	@echo "make audit        look for known weaknesses in the packages that run"
	@echo "make bench        run the benchmarks, side by side with other libraries"
	@echo "make screenshots  take the README's screenshots of the running demo"
	@echo "make wheel        build dist/headroom_edge-….whl, the package for services that enforce limits"
	@echo "make clean        remove .venv, .venv-tools and the caches; the data in .headroom stays"

install:
	@$(INSTALL) requirements-dev.txt

up:
	@$(INSTALL) requirements.txt
	@$(BIN)/python -m config.up --end-with-parent

# Only from the command line: the environment may have a CLUSTER that means something else.
ifeq ($(origin CLUSTER),command line)
up: export HEADROOM_CLUSTER = $(CLUSTER)
endif

# They start many processes; without kept bytecode each of them would compile every module again.
up test sweeps faults: export PYTHONDONTWRITEBYTECODE =

test: install
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadgroup

# Every role, field, page and example of what `make test` runs a representative part of.
sweeps: install
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadgroup -m "sweep"

test-all: test sweeps

# Two at a time: some of them measure.
faults: install
	@$(BIN)/python -m pytest --numprocesses 2 --timeout 3600 -m "faults_long"

lint: install
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -W "ignore:Got an error checking a consistent migration history" manage.py makemigrations --check --dry-run

format: install
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# For every platform and Python from 3.11 on. Versions that the files have stay as they are, unless UPGRADE is set.
COMPILE := .venv-tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --annotation-style line --custom-compile-command "make requirements" $(if $(UPGRADE),--upgrade)

requirements:
	@$(INSTALL) requirements-tools.txt
	@$(COMPILE) requirements.in --output-file requirements.txt
	@$(COMPILE) requirements-dev.in --constraint requirements.txt --output-file requirements-dev.txt
	@$(COMPILE) requirements-tools.in --output-file requirements-tools.txt

messages:
	@$(INSTALL) requirements-tools.txt
	@.venv-tools/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. headroom_edge/gateway/rls/messages.proto

schema: install
	@$(BIN)/python -m config.schema_writer

sbom:
	@$(INSTALL) requirements-tools.txt
	@mkdir -p dist
	@.venv-tools/bin/python -W ignore -m cyclonedx_py requirements requirements.txt --output-reproducible --output-format JSON --output-file dist/headroom.cdx.json
	@ls dist/headroom.cdx.json

audit:
	@$(INSTALL) requirements-tools.txt
	@.venv-tools/bin/python config/audit.py requirements.txt

bench: install
	@$(BIN)/python -m benchmarks

# Needs a running `make up`.
screenshots: install
	@$(BIN)/python -m tests.browser.screenshots

# In isolation, pip would fetch the newest build tools, without hashes.
wheel:
	@$(INSTALL) requirements-tools.txt
	@.venv-tools/bin/python -m pip wheel --no-build-isolation --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) .venv-tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
