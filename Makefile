# Two commands: `make run` compiles a network and shows its bill, `make test` runs everything.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := $(shell find src -name '*.py') pyproject.toml README.md LICENSE

.PHONY: run test lint bench clean

run: $(VENV)/core
	@mkdir -p out
	$(BIN)/python -m hardmax compile examples/bump.npz --on "[-1,1]^2" --error 1e-3 --route attention -o out/bump.safetensors

test: $(VENV)/dev lint
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/plots
	@mkdir -p out
	$(BIN)/python -m benchmarks.networks

clean:
	rm -rf $(VENV) out build dist

# The package is installed as a wheel, not linked: what is tested is what a user gets.
$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hardmax needs Python 3.11 or newer: try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/core: $(VENV)/python constraints.txt $(SOURCES)
	$(PIP) install -c constraints.txt .
	$(PIP) install --no-deps --force-reinstall .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) install -c constraints.txt ".[dev,torch]"
	@touch $@

$(VENV)/plots: $(VENV)/dev
	$(PIP) install -c constraints.txt ".[plots]"
	@touch $@
