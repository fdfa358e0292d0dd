# Two commands: `make run` compiles and certifies x*y, `make test` runs everything.
# Both set up their own environment in .venv, which takes minutes once and nothing afterwards.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Folders are listed too: their times change when a file goes away.
SOURCES := README.md LICENSE $(shell find src -name __pycache__ -prune -o \( -type d -o -type f \) -print)
HALF   := $(VENV).half
LENS   ?= 4
LENS_3 := transformer-lens>=3.9,<4
LENS_4 := transformer-lens>=4,<5

.PHONY: run run-network test test-lens lens-tests lint docs bench bench-functions bench-checker bench-programs bench-geometry bench-regions bench-first-use campaign mutants clean
.NOTPARALLEL:

run: $(VENV)/wheel
	@mkdir -p out
	$(BIN)/hardmax compile "x*y" --on x=-1:1 --on y=-1:1 --error 1e-3 --certify -o out/product.safetensors

run-network: $(VENV)/wheel
	@mkdir -p out
	$(BIN)/hardmax compile examples/bump.npz --on "[-1,1]^2" --error 1e-3 --route attention -o out/bump.safetensors

# Small matrices gain nothing from several BLAS threads, which would only wait for each other. Bounds
# hold whatever BLAS does; but tests that pin them to the last digits were written down with these
# kernels, and others (AVX-512) add up in another order. Loops are compiled however little there is to
# do: that Python says the same has tests of its own.
test: lint
	HARDMAX_LOOPS=compiled OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell $(BIN)/python -m pytest -n 2

# TransformerLens brings much of its own, and 3.9 and 4.x are two libraries: each has an environment.
# `make test-lens` is about 4.x, `make test-lens LENS=3` about 3.9.
test-lens:
	@$(if $(LENS_$(LENS)),,$(error LENS is 4 or 3, not '$(LENS)'))
	$(MAKE) VENV=.venv-lens$(LENS) lens-tests

lens-tests: $(VENV)/lens $(VENV)/wheel
	HF_HUB_OFFLINE=1 OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell $(BIN)/python -m pytest tests_lens/both tests_lens/lens$(LENS)

lint: $(VENV)/dev $(VENV)/wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The documentation as a site, in out/site: from the pages of docs/ and from what is there today.
# Offline; a warning is an error, and so is a link inside that leads nowhere.
docs: $(VENV)/docs $(VENV)/wheel
	@rm -rf out/site && mkdir -p out
	$(BIN)/python -m sphinx -q -W --keep-going -d out/site.made docs out/site
	@echo "out/site/index.html"

bench: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	$(BIN)/python -m benchmarks.networks

bench-functions: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.functions --json out/functions.json

bench-checker: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.checker --json out/checker.json

bench-programs: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.programs --json out/programs.json
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.sequences --json out/sequences.json

bench-geometry: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	HARDMAX_LOOPS=compiled OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.geometry --json out/geometry.json

bench-regions: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	HARDMAX_LOOPS=compiled OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.regions --json out/regions.json

# What a newcomer waits for: nothing compiled, nothing kept.
bench-first-use: $(VENV)/plots $(VENV)/wheel
	@mkdir -p out
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.first_use --json out/first_use.json

# Cases by the ten thousand whose truth is known; what is done is kept, so that it resumes.
campaign: $(VENV)/dev $(VENV)/wheel
	@mkdir -p out
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.campaign --jobs 2
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m campaign

# Faults put into the installed package one by one: which of them do the tests see? Interrupted, it
# goes on where it was; MUTANTS takes options, for example MUTANTS="--part 1/4 --jobs 2".
mutants: $(VENV)/dev $(VENV)/wheel
	@mkdir -p out
	$(BIN)/python -m benchmarks.mutants --count 150 --seed 0 --refresh $(MUTANTS)

clean:
	rm -rf $(VENV) $(HALF) .venv-lens* out build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache

# An install that is interrupted leaves half a package, which pip takes for a whole one. The
# marker $(HALF) stands while dependencies are installed; if it still does, the environment
# starts over. The package itself is simply removed before it is installed again.
ifneq ($(wildcard $(HALF)),)
$(info The last set-up was interrupted: starting over.)
$(shell rm -rf $(VENV) $(HALF))
endif
BEGIN = @touch $(HALF); $(FORGET)
END   = @touch $@ && rm $(HALF)
FORGET = rm -rf $(VENV)/lib/python*/site-packages/hardmax $(VENV)/lib/python*/site-packages/hardmax-*.dist-info

$(VENV)/ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hardmax needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(BEGIN)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(END)

$(VENV)/core: $(VENV)/ready pyproject.toml constraints.txt
	$(BEGIN)
	$(PIP) install 'hatchling>=1.24'
	$(PIP) install --no-build-isolation -c constraints.txt .
	$(END)

$(VENV)/dev: $(VENV)/core
	$(BEGIN)
	$(PIP) install --no-build-isolation -c constraints.txt '.[dev,torch,plots,dask,onnx,hf,jax]'
	$(END)

# One of its dependencies is no wheel, and old setuptools do not make one by themselves.
$(VENV)/lens: $(VENV)/core
	$(BEGIN)
	$(PIP) install 'setuptools>=70.1'
	$(PIP) install --no-build-isolation -c constraints.txt 'pytest>=8' '$(LENS_$(LENS))' '.[lens,hf]'
	$(END)

$(VENV)/plots: $(VENV)/dev
	$(BEGIN)
	$(PIP) install --no-build-isolation -c constraints.txt '.[plots]'
	$(END)

$(VENV)/docs: $(VENV)/dev
	$(BEGIN)
	$(PIP) install --no-build-isolation -c constraints.txt '.[docs]'
	$(END)

# A wheel and not a link to the sources: what is tested is what a user gets.
$(VENV)/wheel: $(VENV)/core $(SOURCES)
	@$(FORGET)
	$(PIP) install --no-build-isolation --no-deps .
	@touch $@
