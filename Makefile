# SPDX-License-Identifier: Apache-2.0
#
# `make test` and `make demo` are all a newcomer needs; `make` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Go, Rust and the network tools, for root shells and sudo whose PATH lacks them.
export PATH := $(PATH):/usr/local/go/bin:$(HOME)/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin
# The version comes from the file VERSION and the commit; Go's own stamp fails
# in a checkout that belongs to another user. With the rest as in the shipped programs,
# checks, programs and tests compile each package once. No linker keeps DWARF, a tenth of the compiler's work.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath -tags=netgo,osusergo -gcflags=all=-dwarf=false

VERSION = $(shell scripts/version.sh)
# The version, and which changes a dirty tree has.
STATE = echo "$$(scripts/version.sh) $$(git -c safe.directory='*' diff HEAD -- . ':!bench/results' ':!docs/benchmarks' ':!docs/benchmarks.md' 2>/dev/null | sha256sum | cut -c 1-12)"
TREE = $(shell $(STATE))
COMMIT = $(shell git -c safe.directory='*' rev-parse --short=12 HEAD 2>/dev/null)
BUILD := github.com/waymark-net/waymark/internal/commandline
STAMPS = -s -w -X $(BUILD).version=$(VERSION) -X $(BUILD).commit=$(COMMIT)
FUZZTIME ?= 30s
NAMES ?=
STEPS ?=
OTHERS ?=
AGREEMENT_PACKETS ?= 1000000
WAYS ?= 3000
# Packages whose goroutines share memory; -race finds nothing in the others.
RACE := ./collector/internal/access/... ./collector/internal/events/... ./collector/internal/live/... ./internal/agent/... ./internal/api/... ./internal/collect/... ./internal/lab/... ./internal/pathmtu/... ./internal/record/... ./internal/routing/... ./internal/sink/... ./internal/stamp/... ./ipfix/...
TEST_TIMEOUT ?= 40m
SOAK ?= 10m
MEASURED_PACKETS ?= 10000000

.PHONY: build package generate console-assets check test test-short bench benchmarks instructions demo console fuzz soak losses dashboards interop release docs picture console-pictures help

build: ## Build the static programs bin/waymark, waymark-lab, waymark-collector, and waymark-bench, which runs the benchmarks
	CGO_ENABLED=0 go build -trimpath -ldflags '$(STAMPS)' -o bin/ ./cmd/... ./bench/cmd/...
	CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags '$(STAMPS) -extldflags "-static -Wl,--no-warnings"' -o bin/ ./collector/cmd/...

package: ## Build the packages (.deb, .rpm, tarballs) of all programs for amd64 and arm64 into build/packages
	rm -rf build/packages build/package-work
	go run ./packaging/cmd/waymark-package --version '$(VERSION)' --commit '$(COMMIT)' --epoch "$${SOURCE_DATE_EPOCH:-$$(git -c safe.directory='*' log -1 --format=%ct)}"
	@# make expands the whole recipe before its first line: TREE is of the beginning.
	@now=$$($(STATE)); if [ "$$now" != '$(TREE)' ]; then \
		rm -rf build/packages; \
		echo "package: the tree has changed meanwhile: '$(TREE)' before, '$$now' now; nothing is kept; run make package again" >&2; exit 1; \
	fi

generate: ## Compile the BPF programs with the pinned compiler (clang 19) and write their Go bindings
	scripts/compiler.sh
	go generate ./internal/datapath ./internal/lab/linkloss ./bench/harness

console-assets: ## Build the collector's console (Node 20, npm) and write it to collector/internal/console/assets
	npm ci --no-audit --no-fund --prefix collector/console
	npm run --silent --prefix collector/console types
	npm run --silent --prefix collector/console check
	npm run --silent --prefix collector/console build

check: ## Run every static check; works offline once the dependencies are there
	scripts/check.sh

test: ## Install what is missing, run every check and every test (root)
	scripts/setup.sh test
	$(MAKE) build
	WAYMARK_PROGRAM='$(CURDIR)/bin/waymark' scripts/test.sh '$(TEST_TIMEOUT)' $(RACE)

test-short: ## Run the tests that need neither root nor BPF, in less than a minute
	CGO_ENABLED=0 go test -short -p 4 $$(go list work | grep -vE '/test/e2e|/collector/')
	CGO_ENABLED=1 go test -short -p 4 ./collector/...

bench: ## Run every benchmark briefly, in less than ten minutes (root)
	scripts/setup.sh bench
	$(MAKE) build
	bin/waymark-bench run --short

benchmarks: ## Run every benchmark in full, or those in NAMES, and write docs/benchmarks.md from the results of this machine and commit (root)
	scripts/setup.sh bench
	$(MAKE) build
	OTHERS='$(OTHERS)' scripts/benchmarks.sh $(NAMES)

instructions: ## Write the tables of verified and executed instructions that checks and tests compare programs with (root)
	go run ./bench/cmd/waymark-bench instructions bench/instructions.txt
	go run ./bench/cmd/waymark-bench executed --table bench/executed.txt

demo: ## Install what is missing and watch packets cross a five-node IOAM domain (root)
	@scripts/setup.sh demo
	@$(MAKE) build
	@bin/waymark lab demo
	@echo 'To see such a network in the console of the collector, in a browser: make console'

console: ## Raise a network with a slow queue, a lossy link and changing paths, and see it in a browser until Ctrl-C (root)
	@scripts/setup.sh demo
	@$(MAKE) build
	@bin/waymark lab demo --console

fuzz: ## Run every fuzz target for FUZZTIME (30s), then a million packets through the agreement test (root)
	scripts/setup.sh test
	scripts/fuzz.sh '$(FUZZTIME)' '$(AGREEMENT_PACKETS)' '$(WAYS)'

soak: ## Export at full rate for SOAK (10m) while the collector is stopped or killed ten times (root)
	scripts/setup.sh test
	WAYMARK_SOAK='$(SOAK)' CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestDirectExportCollectorRestarts$$' ./test/e2e/directexport

losses: ## Send MEASURED_PACKETS (10000000) of 100 SRv6 flows over lossy links, and compare each loss (root)
	scripts/setup.sh test
	WAYMARK_MEASURED_PACKETS='$(MEASURED_PACKETS)' CGO_ENABLED=0 go test -count=1 -timeout 30m -v -run '^TestManyFlows$$' ./test/e2e/measure

dashboards: ## Write packaging/grafana, the dashboards for Grafana, from the code
	go run ./packaging/cmd/waymark-dashboards packaging/grafana

interop: ## Run what needs fresh systems and large programs of others, or the STEPS of scripts/interop.sh (root)
	scripts/interop.sh $(STEPS)

release: ## Check that version, changelog and tree agree, build all packages, write the notes, and make the tag
	scripts/release.sh

docs: ## Write docs/reference from the code
	for program in ./cmd/waymark ./cmd/waymark-lab ./collector/cmd/waymark-collector ./bench/cmd/waymark-bench; do go run $$program docs docs/reference; done
	go run ./scripts/reference docs/reference

picture: ## Run the demo and draw docs/path.svg from one of its packets (root)
	scripts/setup.sh demo
	$(MAKE) build
	bin/waymark lab demo --json | go run ./scripts/picture docs/path

console-pictures: ## Run the console's network for four minutes and write pictures of its screens to docs/console (root)
	scripts/setup.sh test
	$(MAKE) build
	scripts/console-pictures.sh docs/console

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
