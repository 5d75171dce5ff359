# Muster: build, demo and test. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: help build demo test unit e2e setup setup-test bench image lint format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@tools/setup build

setup-test:
	@tools/setup build test

build: setup ## build/release/bin/muster (what `make` alone does)
	@tools/build release muster
	@echo "built build/release/bin/muster"

demo: build ## the main job on the embedded default: API server, GPU cluster, controller, dashboard
	@build/release/bin/muster demo $(DEMO_ARGS)

test: setup-test ## everything: unit, property, simulation, contract and the real control plane
	@tools/test

unit: setup-test ## only what needs no control plane
	@tools/test --unit

e2e: setup-test ## only the suites on the real control plane
	@tools/test --e2e

bench: setup-test ## the benchmarks
	@tools/build bench
	@for b in build/bench/bin/*_bench; do "$$b"; done

image: setup-test ## an OCI archive with the static binary: build/muster-image.tar
	@tools/static-deps
	@tools/build static muster
	@image/build --binary build/static/bin/muster --output build/muster-image.tar

lint: setup-test ## formatting and clang-tidy on what changed
	@tools/lint

format: ## reformat all sources
	@git ls-files '*.h' '*.cc' | xargs -r clang-format-19 -i

clean: ## remove what was built
	rm -rf build
