PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install
install: $(VENV)/.installed

$(VENV)/.installed: requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "headroom: Python 3.11 or newer is needed; $(PYTHON) is %d.%d. Set PYTHON=/path/to/python3.11." % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
