# make quickstart [ARGS="--port 8000 --gpus simulated:4x8xV100-32GB"]   everything on this machine, Ctrl-C stops it
# make test                                                             what a change must pass
# Needs Python 3.11 to 3.13, make and gcc. Everything else comes by the lock files into .venv and static/vendor.

.DEFAULT_GOAL := help
SHELL := /bin/sh
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
# uv reads no pip configuration; where pip has an index of its own, use the same.
export UV_INDEX_URL ?= $(PIP_INDEX_URL)
ifeq ($(strip $(UV_INDEX_URL)),)
unexport UV_INDEX_URL
endif

.PHONY: help quickstart test lint types format messages assets install clean

help:
	@sed -n 's/^# //p' Makefile

quickstart: $(VENV)/.runtime static/vendor/.complete messages-compiled
	@exec $(PY) manage.py quickstart $(ARGS)

test: $(VENV)/.tests static/vendor/.complete messages-compiled lint types
	$(VENV)/bin/pytest -n 2 $(ARGS)

lint: $(VENV)/.tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	PYTHONPATH=. $(VENV)/bin/lint-imports

types: $(VENV)/.tests
	$(VENV)/bin/mypy

format: $(VENV)/.tests
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# Collect what is to be translated (needs gettext), then fill in locale/*/LC_MESSAGES/django.po.
messages: $(VENV)/.runtime
	$(PY) manage.py makemessages --locale zh_Hans --no-location --ignore '.venv/*' --ignore 'tests/*' --ignore 'static/vendor/*'
	$(PY) deploy/compile_messages.py

.PHONY: messages-compiled
messages-compiled: $(VENV)/.runtime
	@$(PY) deploy/compile_messages.py

assets: static/vendor/.complete

install: $(VENV)/.tests static/vendor/.complete messages-compiled

static/vendor/.complete: assets/package-lock.json assets/icons.txt deploy/fetch_assets.py | $(VENV)/.python
	@$(PY) deploy/fetch_assets.py
	@touch $@

# The stamps: what is installed is as new as the lock file that it came from.
$(VENV)/.python: deploy/uv.txt
	@python=; \
	for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$candidate -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	    python=$$candidate; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "Python 3.11, 3.12 or 3.13 is needed and was not found. Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$$python cannot make virtual environments. Install its venv package (Debian: apt install python3-venv)." >&2; exit 1; fi; \
	[ -x $(PY) ] || { echo "making $(VENV) with $$($$python --version)"; $$python -m venv $(VENV); }; \
	$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null; \
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r deploy/uv.txt || \
	  echo "uv could not be installed; pip does its work, more slowly" >&2
	@touch $@

$(VENV)/.runtime: $(VENV)/.python requirements.txt
	@if [ ! -f $(VENV)/.tests ]; then $(call install,requirements.txt); else $(call install,tests/requirements.txt); fi
	@touch $@

$(VENV)/.tests: $(VENV)/.python tests/requirements.txt
	@$(call install,tests/requirements.txt)
	@touch $@ $(VENV)/.runtime

define install
echo "installing $(1)"; \
$(VENV)/bin/uv pip install -q --python $(PY) --require-hashes -r $(1) || \
$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r $(1)
endef

clean:
	rm -rf $(VENV) static/vendor staticfiles .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
