# make          the release build
# make run      examine this machine (and, where it has no RDMA device, a recorded one)
# make test     everything that CI asks for; make vm: only the faults made for real in a VM
# make lint     formatting and clippy
# make bench    the benchmarks
# make bless    write the expected reports anew from what the code says now; look at the difference
# make clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := release
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
DOCTOR := $(TARGET)/release/rdma-doctor
EXAMPLE := fixtures/rxe-no-address.jsonl

# How this machine can build: with verbs where libclang and the headers are there, else without.
FEATURES := source <(tests/install-deps features);
# The VM's tests come last, with the release build.
NO_VM := RDMA_DOCTOR_VM=0
# Any verdict is an answer; what is none fails.
EXAMINE = status=0; $(DOCTOR) check $(1) || status=$$?; [ $$status -le 3 ] || { echo "rdma-doctor ended with status $$status" >&2; exit $$status; }

.PHONY: release run test vm lint bench bless clean deps

release:
	@$(FEATURES) $(CARGO) build --quiet --release $$features

run:
	@tests/install-deps build || true
	@$(MAKE) --no-print-directory release
	@$(call EXAMINE)
	@if [ -z "$$(ls -A /sys/class/infiniband 2>/dev/null)" ]; then \
	    echo; echo "This machine has no RDMA device; a recorded one, $(EXAMPLE):"; echo; \
	    $(call EXAMINE,$(EXAMPLE)); \
	fi

deps:
	@tests/install-deps test

lint: deps
	@$(CARGO) fmt --check
	@$(FEATURES) $(CARGO) clippy --quiet --all-targets $$features -- -D warnings

# The release build, mostly one long step on one processor, goes on beside the tests.
test: lint
	@$(MAKE) --no-print-directory release & release=$$!; $(FEATURES) status=0; \
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	    $(NO_VM) $(CARGO) nextest run -E 'not binary(vm)' --cargo-quiet --no-fail-fast --status-level fail --hide-progress-bar $$features || status=$$?; \
	    $(CARGO) test --quiet --doc $$features || status=$$?; \
	else \
	    $(NO_VM) $(CARGO) test --quiet --no-fail-fast $$features || status=$$?; \
	fi; \
	wait $$release && exit $$status
	@needed=$$(readelf -d $(DOCTOR)); if grep -E 'NEEDED.*(ibverbs|rdmacm)' <<<"$$needed"; then \
	    echo "$(DOCTOR) is linked against it: it would not start where it is missing" >&2; exit 1; \
	fi
	@$(MAKE) --no-print-directory vm

vm: deps release
	@$(FEATURES) RDMA_DOCTOR_BINARY=$(abspath $(DOCTOR)) $(CARGO) test --quiet $$features --test vm -- --test-threads=1

bench:
	@tests/install-deps build || true
	@$(FEATURES) $(CARGO) bench --quiet --bench figures $$features

bless:
	@$(FEATURES) $(NO_VM) RDMA_DOCTOR_BLESS=1 INSTA_UPDATE=always $(CARGO) test --quiet $$features
	@git status --short -- fixtures man tests

clean:
	@$(CARGO) clean
