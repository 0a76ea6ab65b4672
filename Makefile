# Needs make and Python 3.11 or newer; the rest goes into .venv/ (RLlib: .venv-rllib/),
# in the versions of constraints.txt (constraints-rllib.txt).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-train train test test-fast test-rllib lint soak clean

# The first of these that runs and is new enough; `make PYTHON=/path/to/python` overrides the choice.
CANDIDATES := python3.11 python3.12 python3.13 python3 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	if $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$p; break; fi; done)

VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when first imported: compiling them all at once takes three times the installation.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install -qq --no-compile -c constraints.txt
RLLIB_VENV := .venv-rllib
RLLIB_PIP := $(RLLIB_VENV)/bin/python -m pip --disable-pip-version-check --no-input install -qq --no-compile \
	-c constraints-rllib.txt
export PYTHONDONTWRITEBYTECODE :=
SOURCES := judgement_env training tests

# The quick run: its configuration, where it writes, the bot made of it, and how long it is measured.
CONFIG ?= configs/train/quick.yaml
RUN ?= runs/quick
BOT ?= models/quick
MATCHES ?= 4000

# RLlib has an environment and a target of its own.
LEFT_OUT := --ignore=tests/test_rllib.py
# One thread for each maths library: test tables are small, and idle threads must not spin.
TEST_ENV := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	while IFS='|' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done

# Each stamp is newer than the files that decide what it installs, so nothing is installed twice.
$(VENV)/.stamp-venv:
	@if ! "$(or $(PYTHON),python3)" -c '$(NEW_ENOUGH)'; then \
	echo "This project needs Python 3.11 or newer; $(or $(PYTHON),python3) is:" \
	"$$("$(or $(PYTHON),python3)" --version 2>&1 | head -n 1)" >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; fi
	@echo "making $(VENV)/ with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# torch goes first and by its exact version: a range would take a newer, far larger build.
$(VENV)/.stamp-torch: $(VENV)/.stamp-venv constraints.txt
	@spec=$$(grep '^torch==' constraints.txt) && echo "installing $$spec" && $(PIP) "$$spec"
	@touch $@

$(VENV)/.stamp-train: $(VENV)/.stamp-torch pyproject.toml
	@echo "installing judgement-env with what training needs"
	@$(PIP) -e '.[train,bots]'
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-torch pyproject.toml
	@echo "installing judgement-env with what its tests need"
	@$(PIP) -e '.[train,bots,sb3,torchrl,tianshou,openspiel,ratings,dev]'
	@touch $@ $(VENV)/.stamp-train

# RLlib demands an older gymnasium than the tests use, so it has an environment of its own.
$(RLLIB_VENV)/.stamp: $(VENV)/.stamp-venv constraints-rllib.txt pyproject.toml
	@echo "making $(RLLIB_VENV)/ with RLlib"
	@$(PYTHON) -m venv $(RLLIB_VENV)
	@$(RLLIB_PIP) "$$(grep '^torch==' constraints-rllib.txt)"
	@$(RLLIB_PIP) -e '.[rllib]' pytest hypothesis
	@# Ray gives its agent 15 seconds to start, which is too short to compile its modules in.
	@$(RLLIB_VENV)/bin/python -m compileall -q $(RLLIB_VENV)/lib/python3*/site-packages/ray
	@touch $@

setup: $(VENV)/.stamp-test ## build .venv/ with everything, the tests' libraries included

setup-train: $(VENV)/.stamp-train ## build .venv/ with what training and play need

train: $(VENV)/.stamp-train ## train a bot by self-play, export it, measure it against the heuristic
	$(BIN)/python -m training.train $(CONFIG) $(if $(wildcard $(RUN)/checkpoint.pt),--resume)
	$(BIN)/python -m training.export $(RUN) $(BOT)
	$(BIN)/python -m training.evaluate $(BOT) heuristic heuristic heuristic --matches $(MATCHES)
	@echo "Play against it: $(BIN)/judgement play --bots $(BOT),heuristic,heuristic"

test: $(VENV)/.stamp-test ## run every test (ARGS='-k name' passes options to pytest)
	$(TEST_ENV) $(BIN)/python -m pytest $(LEFT_OUT) $(ARGS)

test-fast: $(VENV)/.stamp-test ## run the tests that are not marked slow
	$(TEST_ENV) $(BIN)/python -m pytest -m 'not slow' $(LEFT_OUT) $(ARGS)

test-rllib: $(RLLIB_VENV)/.stamp ## run the tests of RLlib, and of gymnasium 1.2.2 beneath it, in .venv-rllib/
	$(TEST_ENV) RAY_AUTH_MODE=disabled $(RLLIB_VENV)/bin/python -m pytest tests/test_rllib.py tests/test_gym.py $(ARGS)

lint: $(VENV)/.stamp-test ## check format, style and types
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy

soak: $(VENV)/.stamp-test ## search for disagreements with random rules for as long as it takes
	$(TEST_ENV) HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -m slow $(ARGS)

clean: ## remove .venv/, caches and builds; runs/ and models/ stay
	rm -rf $(VENV) $(RLLIB_VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
