# Lily's commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
UV_VERSION := 0.13.8
UV := .tools/bin/uv
RUN := $(UV) run --no-sync
PYTEST := $(RUN) pytest

.PHONY: help setup demo demo-enforce up down status test test-fast lint format types imports test-unit test-contract test-integration test-e2e chaos bench bench-latency bench-ingest bench-lake bench-propagation bench-enforce schemas docs new-connector clean

help: ## List the commands
	@awk -F':.*## ' '/^[a-zA-Z_-]+:.*## /{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .tools/.synced ## Install everything that the other commands need (once; cached)

$(UV):
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Lily needs Python 3.11 or 3.12 as python3; this is $$(python3 --version)"; exit 1; }
	@echo "installing uv $(UV_VERSION) into .tools"
	@python3 -m venv .tools && .tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.tools/.synced: $(UV) pyproject.toml uv.lock $(wildcard libs/*/pyproject.toml services/*/pyproject.toml infra/*/pyproject.toml)
	@$(UV) sync --frozen
	@touch $@

demo: export LILY_DEMO_BEGAN := $(shell date +%s)
demo: setup ## Start everything, run the main job on real input, show the result, stop
	@$(RUN) lily demo

demo-enforce: setup ## Tag a column and see the next query of a real Trino obey, then stop
	@$(RUN) lily demo-enforce

up: setup ## Start the embedded stack and leave it running; writes .lily/env
	@$(RUN) lily up

down: setup ## Stop the embedded stack
	@$(RUN) lily down

status: setup ## Show the embedded stack's components
	@$(RUN) lily status

test: setup lint types imports ## The whole proof: lint, types, import rules, every test on real servers
	@$(RUN) python -m lily_local jars all
	@$(RUN) python -m tests.lanes

lint: setup ## Check style and dependencies
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@for p in libs/common libs/cli services/api services/connectors services/spark-jobs infra/local; do (cd $$p && ../../.venv/bin/deptry src) || exit 1; done

format: setup ## Format the code
	@$(RUN) ruff check --fix --quiet . ; $(RUN) ruff format .

types: setup ## mypy --strict on our packages
	@$(RUN) mypy

imports: setup ## Check the direction of imports
	@$(RUN) lint-imports

test-unit: setup ## Tests that need no server
	@$(PYTEST) tests/unit

test-contract: setup ## Schemas, examples and the OpenAPI
	@$(PYTEST) tests/contract

test-integration: setup ## One service with its real servers
	@$(PYTEST) tests/integration

test-e2e: setup ## The whole stack
	@$(PYTEST) tests/e2e

chaos: setup ## kill -9 each process at five random moments under load, judged by the ledger
	@$(PYTEST) tests/chaos

bench: bench-latency bench-ingest bench-lake bench-propagation bench-enforce ## Every benchmark that exists; JSON in bench/results

bench-latency: setup ## POST to webhook, Kafka-in to notice-out, mirror and lake freshness
	@$(RUN) python -m tests.bench.latency

bench-lake: setup ## Upserts, freshness, incremental refresh, many commits and the archive, each beside its plain way
	@$(RUN) python -m tests.bench.lake

bench-enforce: setup ## From a tag to the first masked query, in Trino and in PostgreSQL
	@$(RUN) python -m tests.bench.enforce

bench-propagation: setup ## A tag's way down graphs of up to a million assets, and back
	@$(RUN) python -m tests.bench.propagation

bench-ingest: setup ## Durable events per second beside two plain peers
	@$(RUN) python -m tests.bench.ingest

schemas: setup ## Generate contracts/schemas from the event models
	@$(RUN) python -m lily_common.schemas write

clean: ## Remove what the build made (not the data folder)
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

new-connector: setup ## Make the folder of a new inbound connector: make new-connector NAME=x
	@$(RUN) python -m lily_connectors.scaffold "$(NAME)"
