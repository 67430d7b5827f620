# calico-vpp-services: `make` lists what there is.

GO       ?= go
BIN      ?= bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  := -s -w -X main.version=$(VERSION)
PKGS     ?= ./...
T        ?= 20s
SOAK_STEPS   ?= 200000
SOAK_MINUTES ?= 30
# A cache of its own: golangci-lint keeps the paths of the clone that filled it.
LINTENV  := GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/calico-vpp-services
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/calico-vpp-services ./cmd/calico-vpp-services

.PHONY: demo
demo: build ## Show the main job on a small shop: no root, no cluster, no VPP
	$(BIN)/calico-vpp-services demo

.PHONY: test
test: ## Run the tests: no root, no VPP
	$(GO) test $(PKGS)

.PHONY: race
race: ## Run the tests with the race detector, in another order
	$(GO) test -race -shuffle=on -count=1 $(PKGS)

.PHONY: lint
lint: ## gofmt, go vet and golangci-lint
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt:"; echo "$$out"; exit 1; fi
	$(GO) vet $(PKGS)
	$(LINTENV) $(GO) run $(LINT) run

.PHONY: fuzz
fuzz: ## Run each fuzz target for T=20s
	@$(GO) list ./... | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(T) $$p || exit 1; done; done

.PHONY: soak
soak: ## Random faults and restarts against a slow model: SOAK_STEPS=200000 in at most SOAK_MINUTES=30; on a real VPP too if there is one
	SOAK_STEPS=$(SOAK_STEPS) SOAK_MINUTES=$(SOAK_MINUTES) $(GO) test -count=1 -timeout 3h -run 'Soak$$' -v ./services | grep -E '^(soak:|---|ok|FAIL|panic)|VPP'

.PHONY: bench
bench: ## Run the benchmarks, ten times each, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 10 $(PKGS)

.PHONY: test-vpp
test-vpp: ## Run the contract and script tests on a real VPP (on PATH, or VPP_BIN=...)
	@command -v $${VPP_BIN:-vpp} >/dev/null || { echo "no vpp on PATH: give VPP_BIN=/path/to/vpp"; exit 1; }
	VPP_REQUIRED=1 $(GO) test -count=1 -run 'Contract|Packets|RealVPP' ./vppsim/... ./cmd/... ./services
