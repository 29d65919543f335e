# `make run` and `make test` set everything up on a fresh machine. TORCH is installed first, so that
# no multi-gigabyte CUDA build is pulled by accident; on a GPU machine: make setup TORCH='torch>=2.13,<2.15'
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 2

.PHONY: help setup run paper test setup-sglang test-sglang gpu-check check lint clean

help:            ## List the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 14

$(BIN)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

setup: $(BIN)/.ready    ## Create .venv and install the project

run: setup       ## Vanilla, EAGLE-3 and EVICT on the lab model, interleaved, with the comparison
	$(BIN)/python run.py +experiment=first_run

paper: setup     ## The paper's evaluation on the lab model, 50 minutes; then tables, figures and page
	$(BIN)/python run.py +experiment=paper
	$(BIN)/python -m harness.report results/runs

test: setup      ## The test suite on two cores, 8 minutes (no GPU, no network)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# The real SGLang on a CPU: its wheel without its CUDA packages (3 GB against tens), kernels from tests/sglang/standins.
SGLANG_VENV := .venv-sglang
SGLANG_BIN := $(SGLANG_VENV)/bin

$(SGLANG_BIN)/.ready: pyproject.toml tests/sglang/requirements.txt
	$(PYTHON) -m venv $(SGLANG_VENV)
	$(SGLANG_BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(SGLANG_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps sglang==0.5.23
	$(SGLANG_BIN)/python -m pip install --quiet --disable-pip-version-check -r tests/sglang/requirements.txt
	$(SGLANG_BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

setup-sglang: $(SGLANG_BIN)/.ready    ## Create .venv-sglang: SGLang 0.5.23 for CPU tests, 3 GB

test-sglang: setup-sglang    ## The tests that drive the real SGLang, on a CPU
	$(SGLANG_BIN)/python -m pytest -m sglang tests/sglang

gpu-check:       ## On one GPU with sglang: what a CPU cannot answer, as one JSON, within 12 minutes
	scripts/gpu_check.sh --out results/reference/gpu_check.json

check: setup     ## Formatting, types and import rules
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:           ## Remove new runs and caches; keeps .venv and results/reference
	rm -rf results/runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
