# The front door. `make` alone says what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),target)
# One selection of packages for everything, so that dependencies are built once.
CARGO_BUILD := cargo build --release --workspace --bin coxswain --bin xtask

# Tests are compiled and used once: our own crates unoptimised there, which saves minutes, and with
# assertions and overflow checks. Dependencies and controllers are those of `make build`.
OWN := coxswain coxswain-localcluster coxswain-sdk coxswain-tests xtask $(notdir $(wildcard guests/*-controller))
UNOPTIMISED := $(TARGET)/unoptimised.toml
.PHONY: $(UNOPTIMISED)
$(UNOPTIMISED):
	@mkdir -p $(TARGET)
	@printf '[profile.release.package.%s]\nopt-level = 0\ndebug-assertions = true\noverflow-checks = true\n' $(OWN) > $@

# Compiles the controllers into the cache, two at a time.
COMPILE = printf '%s\0' $(TARGET)/controllers/*.wasm | xargs -0 -n 1 -P 2 $(TARGET)/release/coxswain inspect > /dev/null
# Tests keep compiled controllers to themselves.
TEST_CACHE = XDG_CACHE_HOME="$(abspath $(TARGET))/cache"

CONFORMANCE = cargo test --config $(UNOPTIMISED) --release --workspace --test conformance
SAMPLE = $(TEST_CACHE) PARITY_AGAIN=2 PARITY_SAMPLE=30

.PHONY: help
help: ## Say what there is
	@echo "Coxswain: a Kubernetes controller manager whose controllers are WebAssembly components."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "To begin with: make demo"

.PHONY: build
build: tools ## Build target/release/coxswain and target/controllers/*.wasm
	$(CARGO_BUILD)
	$(TARGET)/release/xtask guests --check-sizes
	@# Modules are compiled for this machine now rather than at the first start; the cache is the user's own.
	@$(COMPILE)

.PHONY: guests
guests: tools ## Build the controllers alone: target/controllers/*.wasm
	cargo build --release --workspace --bin xtask
	$(TARGET)/release/xtask guests --check-sizes

.PHONY: demo
demo: build ## Run the manager against a small cluster in the same process
	$(TARGET)/release/coxswain demo

.PHONY: test
test: tools $(UNOPTIMISED) ## Run all tests
	$(CARGO_BUILD) --config $(UNOPTIMISED)
	$(TARGET)/release/xtask guests --test-guests --check-sizes
	@export $(TEST_CACHE); $(COMPILE)
	@# Three of the scenarios, which play in real time, may need a second try; which ones is printed.
	$(TEST_CACHE) PARITY_AGAIN=3 cargo test --config $(UNOPTIMISED) --release --workspace --no-fail-fast
	@# Some of them again while modules are swapped, and while the manager is killed and started, all the time.
	$(SAMPLE) PARITY_SWAP_MS=700 $(CONFORMANCE) -- parity::
	$(SAMPLE) PARITY_RESTART_MS=2500 $(CONFORMANCE) -- parity::

.PHONY: examples
examples: tools ## Build and test the example controllers in Rust, Python and Go, as far as their tools are there
	$(CARGO_BUILD)
	$(TEST_CACHE) guests/examples/build.sh "$(TARGET)"

.PHONY: parity
parity: tools $(UNOPTIMISED) ## Compare with what kube-controller-manager does (FAMILY=job for one family)
	$(CARGO_BUILD) --config $(UNOPTIMISED)
	$(TARGET)/release/xtask guests --test-guests
	@export $(TEST_CACHE); $(COMPILE)
	$(TEST_CACHE) $(CONFORMANCE) -- parity::$(if $(FAMILY),$(FAMILY)::)

.PHONY: bench
bench: build ## Measure
	cargo bench --workspace --benches

.PHONY: lint
lint: tools ## Check format and style
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- --deny warnings

.PHONY: fmt
fmt: tools ## Format the source
	cargo fmt --all

.PHONY: clean
clean: ## Remove all that was built
	rm -rf "$(TARGET)"

.PHONY: tools
tools:
	@command -v cargo > /dev/null || { \
	  echo "Rust is not installed: there is no cargo on the path." >&2; \
	  echo "Install rustup (https://rustup.rs, or on Debian: apt install rustup); it fetches the version in rust-toolchain.toml." >&2; \
	  exit 1; }
	@command -v cc > /dev/null || { \
	  echo "There is no C compiler, which Rust needs for linking. On Debian: apt install gcc libc6-dev" >&2; \
	  exit 1; }
