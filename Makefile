# envfarm. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Test files at once; most tests wait for a process to start or to answer.
TEST_JOBS ?= 2
# Asked only when the configured package sources have no CPU build of torch.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
STAMP := $(VENV)/.ready-$(shell cat requirements/*.txt requirements/setup.sh requirements/build_ops.py */pyproject.toml services/*/pyproject.toml deploy/vllm-metadata/pyproject.toml | sha256sum | cut -c1-16)

.PHONY: help setup demo demo-proofs test check prove gpu-test bench watch observability-test compose-test tasks proto dashboards lock format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: $(STAMP) ## once: virtual environment, wheels, our own packages, DeepSpeed's C++ ops

$(STAMP):
	@PYTHON=$(PYTHON) VENV=$(VENV) TORCH_INDEX=$(TORCH_INDEX) bash requirements/setup.sh
	@rm -f $(VENV)/.ready-*; touch $@

demo: setup ## from nothing to a policy that got better, in about 20 minutes; goes on where it was
	@$(BIN)/envfarm demo

# Exit status 3 is a result, too: the interval does not lie above zero.
demo-proofs: setup ## the demo with three seeds, and its control; writes proofs/demo-*.json (80 minutes)
	@for seed in 1 2 3; do \
	  $(BIN)/envfarm demo --seed $$seed --proof proofs/demo-seed-$$seed.json || [ $$? -eq 3 ] || exit 1; \
	done
	@$(BIN)/envfarm demo --control permuted --proof proofs/demo-control.json || [ $$? -eq 3 ]

check: setup ## format, lint, types, import rules, stubs, contracts (2 minutes)
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python proto/generate.py --check
	$(BIN)/pyright
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/contract

test: setup ## all tests on real Postgres, Valkey, vLLM and DeepSpeed (20 minutes)
	$(BIN)/python -m pytest -q -m "not prove" -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --durations=20

# Domains with a pool of their own; orders and counter are for tests and the demo.
POOLS = $(filter-out orders counter,$(notdir $(patsubst %/world/,%,$(wildcard domains/*/world/))))

tasks: setup ## lint, worlds, proofs of all tasks, and scripted agents on the pools (10 minutes)
	$(BIN)/envfarm tasks lint
	$(BIN)/envfarm tasks similar $(POOLS:%=--domain %)
	$(BIN)/envfarm world check
	$(BIN)/envfarm tasks validate --all --stand-in-judge
	$(BIN)/envfarm tasks baselines $(POOLS:%=--domain %)

prove: setup ## full rounds and benches; writes proofs/*.json
	$(BIN)/python -m pytest -q -m prove

gpu-test: setup ## on one GPU: the CPU's losses, the planned memory; skipped without a device
	$(BIN)/python -m pytest -q -m gpu tests/gpu

watch: setup ## a Prometheus with the alerts beside the running stack; ENVFARM_PROMETHEUS names one off the PATH
	@$(BIN)/envfarm watch

observability-test: setup ## boards, alerts and traces on a real run; skipped without a prometheus
	$(BIN)/python -m pytest -q tests/contract/test_watching.py tests/e2e/test_observability.py

compose-test: setup ## the stack in real containers, without an image registry; skipped without a Docker engine
	$(BIN)/python -m pytest -q -m prove tests/prove/test_compose_stack.py

bench: setup ## figures beside their floors
	$(BIN)/envfarm bench env

proto: setup ## regenerate the stubs from proto/envfarm/v1
	$(BIN)/python proto/generate.py

dashboards: setup ## regenerate the dashboards and the page of metrics
	$(BIN)/python -m envfarm_watch.grafana deploy/grafana/dashboards
	$(BIN)/python -m envfarm_watch.reference docs/metrics.md

lock: setup ## take the installed versions as the lock
	@$(BIN)/python requirements/lock.py > requirements/lock.tmp && mv requirements/lock.tmp requirements/lock.txt

format: setup ## format and fix what can be fixed
	$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

clean: ## remove the virtual environment and all run data
	rm -rf $(VENV) .envfarm runs
