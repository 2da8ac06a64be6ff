# make             the release build
# make run         examine this machine (and, where it has no RDMA device, a recorded one)
# make quick       what one runs after each change: no namespaces, no VM, fewer cases; under two minutes after a build
# make test        lint, and all tests but those in virtual machines
# make vm          faults made for real in virtual machines
# make exhaustive  the tests with many cases, with all of them; hours, or RDMA_DOCTOR_PART=3/8 for the third of eight parts
# make lint        formatting, clippy, the documentation's links, and what the dependencies are (deny.toml)
# make bench       the benchmarks
# make bless       write the expected reports and manual pages as the code says them now; look at the difference
# make install     the release build, its manual and completions below PREFIX (/usr/local) of DESTDIR
# make dist        the downloads for x86-64 and aarch64: tarballs, .deb, .rpm, wheels, images (packaging/dist)
# make dist-check  builds them twice and compares, and tries each (packaging/check)
# make clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := release
CARGO ?= cargo
PREFIX ?= /usr/local
EXAMPLE := fixtures/rxe-no-address.jsonl

# How this machine can build: with verbs where libclang and the headers are there, else without.
FEATURES := source <(tests/install-deps features);
NEXTEST = $(CARGO) nextest run --cargo-quiet --hide-progress-bar $$features
# Where the release build is. (In quotes: a folder may have any name.)
DOCTOR = "$${CARGO_TARGET_DIR:-target}/release/rdma-doctor"
# From the path, or where tests/install-deps put it.
DENY = PATH="$$PATH:$${CARGO_TARGET_DIR:-target}/cargo-deny" cargo-deny
# Any verdict is an answer; what is none fails.
EXAMINE = status=0; $(DOCTOR) check $(1) || status=$$?; [ $$status -le 3 ] || { echo "rdma-doctor ended with status $$status" >&2; exit $$status; }

.PHONY: release run quick test vm exhaustive lint bench bless install dist dist-check clean deps

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
	@$(FEATURES) RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --quiet --no-deps --document-private-items $$features
	@$(DENY) --log-level error check bans licenses sources >/dev/null || $(DENY) check bans licenses sources

# (more at once than there are processors: many tests wait)
AT_ONCE = --test-threads $$((2 * $$(nproc)))

quick:
	@$(FEATURES) RDMA_DOCTOR_CASES=quick $(NEXTEST) $(AT_ONCE) --profile quick

test: lint
	@$(FEATURES) $(NEXTEST) $(AT_ONCE)

vm: deps release
	@$(FEATURES) RDMA_DOCTOR_BINARY=$$(realpath $(DOCTOR)) $(NEXTEST) --profile vm --test suite

exhaustive: deps release
	@tests/install-deps torch || true
	@$(FEATURES) RDMA_DOCTOR_CASES=all PROPTEST_CASES=20000 $(NEXTEST) --cargo-profile exhaustive --profile exhaustive
	@$(FEATURES) RDMA_DOCTOR_CASES=all RDMA_DOCTOR_BINARY=$$(realpath $(DOCTOR)) $(NEXTEST) --profile vm --test suite -E 'test(/every_fault|packets_way/)'

bench:
	@tests/install-deps build || true
	@$(FEATURES) $(CARGO) bench --quiet --profile dist --bench figures $$features

bless:
	@$(FEATURES) RDMA_DOCTOR_BLESS=1 INSTA_UPDATE=always $(NEXTEST) --profile snapshots
	@git status --short -- fixtures man tests

install:
	@$(FEATURES) commit=$$(git describe --always --abbrev=12 --dirty --exclude='*' 2>/dev/null) || true; \
	    $${commit:+env RDMA_DOCTOR_COMMIT=$$commit} $(CARGO) build --quiet --release --locked $$features
	@packaging/stage $(DOCTOR) "$(DESTDIR)" "$(PREFIX)"

dist:
	@packaging/dist

dist-check:
	@packaging/check

clean:
	@$(CARGO) clean
