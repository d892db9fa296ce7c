# Every target builds the whole workspace: cargo unifies the features of what it builds together, and another selection
# would compile parts of it a second time. Demo, tests and lint share one profile; what is timed or runs for hours is
# optimised.

SHELL := /bin/bash

TARGET := $(or $(CARGO_TARGET_DIR),target)
# Without the crate of Restate, which only builds with clusters compile.
WORKSPACE := --workspace --exclude rondo-restate
CLUSTERS := --workspace --features rondo-cli/restate
OPTIMISED := --release $(WORKSPACE)
LLM_PORT ?= 8177

# bindgen loads libclang. On macOS it finds the one of Apple's tools by itself; Homebrew's has to be shown.
ifeq ($(shell uname -s),Darwin)
ifeq ($(wildcard /Library/Developer/CommandLineTools/usr/lib/libclang.dylib),)
export LIBCLANG_PATH ?= $(shell brew --prefix 2>/dev/null)/opt/llvm/lib
endif
endif

.PHONY: help demo test lint bench bench-compare packages try-packages screenshots test-page test-llm test-sdks test-restate shares build-without-caches test-without-caches mutants fuzz mutants-durability soak prepare

help:
	@echo "make demo      build, then run a workflow without a model"
	@echo "make test      every test; needs no key; fetches crates, and two npm packages where npm is installed"
	@echo "make test-page  the page of \`rondo serve\` in a real browser, and whether its built files are those of its sources"
	@echo "make screenshots  the README's pictures of the page, made from real runs"
	@echo "make lint      formatting, clippy, and what canonical bytes ask of the build"
	@echo "make bench     benchmarks, each beside a reference of the same run"
	@echo "make bench-compare  a step here, in LangGraph and in DBOS"
	@echo "make packages  tarball, wheel, npm packages and .deb, in target/packages; try-packages runs the demo from each"
	@echo "make test-without-caches  everything without the two hook kinds that keep answers; build-without-caches only builds"
	@echo "make mutants   changes the code that writes messages, and says what no test notices; needs cargo-mutants, takes hours"
	@echo "make fuzz CHECK=answer MINUTES=5  one reader of outside bytes under cargo-fuzz, where a nightly compiler has it; else more seeded mutations for all"
	@echo "make mutants-durability  builds eight versions that lose or believe what they must not, and says which test notices each"
	@echo "make soak MINUTES=60  losses of power, damaged bits, repairs, races, ledgers and simulated runs, on from where the last call stopped"
	@echo "make test-sdks  the official clients of three providers, from PyPI, against the fake servers of the tests"
	@echo "make shares    what of each request the caches of fake providers serve, in each protocol"
	@echo "make test-restate  threads on a Restate cluster of one and of three nodes, which are killed; SHORT=1 takes a minute"
	@echo "make test-llm  what a real model server on loopback, which is built first, caches in each of its three protocols"

demo: prepare
	@echo "Building. The first time takes about eight minutes on two cores, a third of it for RocksDB's C++."
	cargo build $(WORKSPACE)
	$(TARGET)/debug/rondo run review-loop --offline

# The page is built by Vite and committed, so that `cargo build` needs no Node. Its tests drive a Chromium.
test-page: prepare
	@.ci/prepare page
	cargo build $(WORKSPACE)
	cd engine/web/page && npm ci --loglevel=error && npm run --silent check
	cd tests/page && npm ci --loglevel=error && RONDO="$(abspath $(TARGET))/debug/rondo" npm test --silent

# The README's pictures of the page, from real runs; they are looked at and committed by hand.
screenshots: prepare
	@.ci/prepare page
	cargo build $(WORKSPACE)
	cd tests/page && npm ci --loglevel=error && RONDO="$(abspath $(TARGET))/debug/rondo" node screenshots.mjs

# Every test runs, whatever fails; the documentation tests come first, so that the last line is the test runner's.
test: prepare
	@.ci/prepare tests
	@failed=0; \
	cargo test $(WORKSPACE) --no-fail-fast --doc || failed=1; \
	if cargo nextest --version >/dev/null 2>&1; then \
		echo "cargo nextest run $(WORKSPACE) --no-fail-fast"; cargo nextest run $(WORKSPACE) --no-fail-fast || failed=1; \
	else \
		echo "cargo test $(WORKSPACE) --no-fail-fast"; cargo test $(WORKSPACE) --no-fail-fast --lib --bins --tests || failed=1; \
	fi; \
	exit $$failed

# serde_json's features `preserve_order` and `arbitrary_precision` change what it makes of maps and numbers, for
# everybody in the build: no dependency may switch them on.
lint: prepare
	cargo fmt --all --check
	cargo clippy $(WORKSPACE) --all-targets -- -D warnings
	cargo clippy $(CLUSTERS) --all-targets -- -D warnings
	@features=$$(cargo tree $(CLUSTERS) -e features -i serde_json) || exit 1; \
	if grep -E 'serde_json feature "(preserve_order|arbitrary_precision)"' <<<"$$features"; then \
		echo "error: a dependency switches on a feature of serde_json that digests must not meet" >&2; exit 1; \
	fi

bench: prepare
	cargo build $(OPTIMISED)
	cargo bench $(WORKSPACE) --bench figures

# The same steps in LangGraph and DBOS, from PyPI, in one run with rondo's.
bench-compare: prepare
	@test -x "$(TARGET)/compare/bin/python" || python3 -m venv "$(TARGET)/compare"
	@"$(TARGET)/compare/bin/pip" install --quiet --disable-pip-version-check -r tests/benches/compare/requirements.txt
	cargo bench $(WORKSPACE) --bench figures step durable
	@"$(TARGET)/compare/bin/python" tests/benches/compare/steps.py

# Small and fast, which takes a while to compile. They are made offline.
packages: prepare
	RONDO_COMMIT="$$(git rev-parse --short=10 HEAD 2>/dev/null)" cargo build --profile dist $(CLUSTERS) --bin rondo
	packaging/make.py "$(TARGET)/dist/rondo" "$(TARGET)/packages"

try-packages: packages
	packaging/try.sh "$(TARGET)/packages"

# What the fakes of `tests/support/providers` say is what the providers' own clients understand. Needs no build.
test-sdks:
	@test -x "$(TARGET)/sdks/bin/python" || python3 -m venv "$(TARGET)/sdks"
	@timeout 300 "$(TARGET)/sdks/bin/pip" install --quiet --disable-pip-version-check \
		-r tests/support/providers/requirements.txt
	@timeout 120 "$(TARGET)/sdks/bin/python" -B tests/support/providers/checks.py
	@timeout 300 "$(TARGET)/sdks/bin/python" -B tests/support/providers/sdk_clients.py

shares: prepare
	cargo build $(WORKSPACE)
	@timeout 300 python3 -B tests/support/providers/shares.py "$(TARGET)/debug/rondo"

# Threads on real servers of Restate, from their npm package, on loopback.
test-restate: prepare
	@tests/restate/server.sh --check || exit 0; \
	cargo build $(CLUSTERS) --bins --examples && cargo test --package rondo-restate --lib && \
	timeout 3000 python3 -B tests/restate/trials.py --server "$$(tests/restate/server.sh)" $(if $(SHORT),--short) "$(TARGET)/debug/rondo"

# One test at a time: the servers have few slots, and what one test sends must not push out what another measures.
test-llm: prepare
	@tests/support/llm.sh $(LLM_PORT) cargo test $(WORKSPACE) --test llm -- --ignored --nocapture --test-threads=1

# Law `independence`: everything but the two hook kinds that keep answers builds and passes without them. Features of our
# own packages are none of RocksDB's, so that its C++ stays as it was compiled. The binary with them is linked again last.
test-without-caches: build-without-caches
	@.ci/prepare tests
	@if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run $(WORKSPACE) --no-default-features; \
	else \
		cargo test $(WORKSPACE) --no-default-features --lib --bins --tests; \
	fi
	cargo build $(WORKSPACE)

build-without-caches: prepare
	cargo build $(WORKSPACE) --no-default-features

# In place, because a copy of the tree would compile everything again; the working tree has to be clean.
mutants: prepare
	@git diff --quiet || { echo "error: commit your changes first: mutants are made in the working tree" >&2; exit 1; }
	RONDO_TEST_ALL=1 cargo test $(WORKSPACE) --test mutants
	cargo mutants --in-place

mutants-durability: prepare
	@tests/sim/mutants.sh $(WORKSPACE)

# Its folder, below the target folder, keeps how far the damage sweep is; delete it to begin again. A tenth of the time is
# for simulated runs, from a random seed on.
soak: prepare
	@.ci/prepare tests
	cargo build $(OPTIMISED)
	RONDO_SIMULATION_MINUTES=$$(($(MINUTES) / 10)) RONDO_SIMULATION_SEED=$$((RANDOM * 100000)) \
		cargo test $(OPTIMISED) --lib simulation:: -- --nocapture
	MINUTES=$(MINUTES) cargo test $(OPTIMISED) --test sim soak::soak -- --exact --ignored --nocapture

# What an outsider's bytes meet. The checks stand in the modules `fuzz`; `tests/fuzz` has their inputs.
CHECK ?= workflow_file
MINUTES ?= 5
fuzz: prepare
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then \
		mkdir -p "$(TARGET)/fuzz/$(CHECK)" && RONDO_FUZZ_TARGET=$(CHECK) \
		cargo +nightly fuzz run --fuzz-dir tests/fuzz/libfuzzer check "$(abspath $(TARGET))/fuzz/$(CHECK)" \
			$(wildcard tests/fuzz/corpus/$(CHECK)) -- -max_total_time=$$(($(MINUTES) * 60)); \
	else \
		echo "there is no nightly compiler with cargo-fuzz: seeded mutations for all checks"; \
		RONDO_FUZZ_RUNS=100000 RONDO_FUZZ_SEED=$$RANDOM cargo test $(OPTIMISED) --lib fuzz::; \
	fi

# What the build needs beside cargo: says what it installs and why, and does nothing where it is there.
prepare:
	@.ci/prepare
