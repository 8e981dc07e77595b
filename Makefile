# Every target makes the virtual environment it needs, from the versions in constraints.txt.
# Stamp files inside the environment record what is done, so a second call starts at once.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
WERROR ?= $(if $(CI),ON,OFF)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# CMake finds ninja, clang-tidy and Python in the environment, wherever the checkout lies.
VENV_PATH = $$(cd $(BIN) && pwd)
CMAKE = PATH="$(VENV_PATH):$$PATH" cmake
CTEST = PATH="$(VENV_PATH):$$PATH" ctest

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# scikit-build-core reads these: one build tree for each environment, kept between builds.
export SKBUILD_BUILD_DIR := build/$(patsubst .%,%,$(notdir $(VENV)))-{wheel_tag}
export SKBUILD_CMAKE_DEFINE := DATACURSOR_WERROR=$(WERROR)
unexport PYTHONPATH

PROJECT := pyproject.toml constraints.txt
CORE := CMakeLists.txt $(shell find cpp -type f)
PACKAGE := $(shell find src -name '*.py' -o -name '*.pyi')
CPP := $(shell find cpp tests/cpp benchmarks -name '*.[ch]pp')
TYPED := src tests examples $(if $(wildcard benchmarks/*.py),benchmarks)
SANITIZERS := asan tsan
# A file's tests share what they prepare, so a file stays in one process.
SPREAD := -n $(JOBS) --dist loadfile

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.installed ## train, kill and resume a small model (DEMO_FLAGS=--quick)
	$(BIN)/python -m datacursor.demo $(DEMO_FLAGS)

.PHONY: test test-cpp test-python
test: test-cpp test-python ## build and run the C++ and the Python tests

test-cpp: build-default
	$(CTEST) --preset default

test-python: $(VENV)/.installed
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST_FLAGS)

.PHONY: test-core
test-core: ## run the tests that need no torch, in .venv-VERSION (PYTHON=python3.12)
	@$(check-python)
	@$(MAKE) --no-print-directory test-installed \
	    VENV=.venv-$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

.PHONY: test-installed
test-installed: $(VENV)/.core
	$(BIN)/python -m pytest $(SPREAD) --doctest-ignore-import-errors $(PYTEST_FLAGS) tests --pyargs datacursor

.PHONY: lint lint-python lint-types lint-format lint-tidy
lint: lint-python lint-types lint-format lint-tidy ## check style, types and C++ without running anything

lint-python: $(VENV)/.lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-types: $(VENV)/.lint
	$(BIN)/mypy $(TYPED)
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml datacursor._core

lint-format: $(VENV)/.lint
	$(BIN)/clang-format --dry-run -Werror $(CPP)

lint-tidy: build/tidy/build.ninja $(VENV)/.lint
	$(CMAKE) --build --preset tidy

.PHONY: format
format: $(VENV)/.lint ## rewrite the sources in the house format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP)

.PHONY: sanitize $(SANITIZERS)
sanitize: $(SANITIZERS) ## run the C++ tests under the address, undefined and thread sanitizers

$(SANITIZERS): %: build/%/build.ninja
	$(CMAKE) --build --preset $@
	$(CTEST) --preset $@

.PHONY: bench
bench: $(VENV)/$(if $(findstring --check,$(BENCH_FLAGS)),.peers,.bench) build-default ## run the benchmarks (BENCH_FLAGS=--check)
	@for script in $(sort $(wildcard benchmarks/bench_*.py)); do \
	    echo "== $$script"; \
	    $(BIN)/python "$$script" $(BENCH_FLAGS) || exit; \
	done

.PHONY: quality
quality: $(VENV)/.installed ## test the orders against true shuffles at length (QUALITY_FLAGS=--short)
	PYTHONPATH=tests $(BIN)/python -m quality $(QUALITY_FLAGS)

.PHONY: dev
dev: $(VENV)/.lint build-default ## set up everything for working on the sources

.PHONY: build-default
build-default: build/default/build.ninja
	$(CMAKE) --build --preset default

.PHONY: clean distclean
clean: ## remove what was built, keep the environments
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f $(wildcard .venv*/.core .venv*/.installed)

distclean: clean ## remove the environments too
	rm -rf .venv .venv-*

# Environments. Only one pip at a time may work on an environment, so the stamps form a chain.

define check-python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
    echo "datacursor needs Python 3.10 or newer and '$(PYTHON)' is not one;" \
        "name another: make PYTHON=python3.12" >&2; \
    exit 1; }
endef

$(VENV)/.tools: constraints.txt
	@$(check-python)
	$(PYTHON) -m venv $(VENV)
	$(PIP) cmake ninja pybind11 scikit-build-core
	@touch $@

$(VENV)/.cpp: $(VENV)/.tools
	$(PIP) boost-headers
	@touch $@

$(VENV)/.installed: $(VENV)/.cpp $(PROJECT) $(CORE)
	$(PIP) --no-build-isolation --editable '.[cli,plot,test]'
	@touch $@

$(VENV)/.peers: $(PROJECT) | $(VENV)/.installed
	$(PIP) 'datacursor[peers]'
	@touch $@

# Not in the chain: a check, as in CI, does without these.
$(VENV)/.bench: $(PROJECT) | $(VENV)/.lint
	$(PIP) 'datacursor[bench]'
	@touch $@

$(VENV)/.lint: $(PROJECT) | $(VENV)/.peers
	$(PIP) 'datacursor[lint]'
	@touch $@

$(VENV)/.core: $(VENV)/.tools $(PROJECT) $(CORE) $(PACKAGE)
	$(PIP) numpy pytest pytest-xdist hypothesis
	$(PIP) --no-build-isolation --no-deps --force-reinstall .
	@touch $@

build/%/build.ninja: CMakePresets.json | $(VENV)/.cpp
	$(CMAKE) --preset $* -DDATACURSOR_WERROR=$(WERROR) \
	    -DPython_EXECUTABLE="$(VENV_PATH)/python"
