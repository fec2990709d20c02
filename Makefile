# build, demo, check, test, bench, nightly, fuzz: each works in a fresh clone on a machine with Rust, Python 3.10 and Node 20.19, or
# newer. `make test` wants Chromium too.

CARGO ?= cargo
PYTHON ?= python3
NPM ?= npm
# nextest runs each test in a process of its own and sums up in one line; without it `cargo test` does.
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
# Many tests wait, for a process, a socket or a terminal: two for each core leave none idle.
TESTS_AT_ONCE := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
DENY := $(shell $(CARGO) deny --version >/dev/null 2>&1 && echo yes)

# Always the same packages and kinds of target, or crates would be built once more with other features: `clippy`, `build` and `test` share
# the procedural macros, and what is built once serves every stage.
WORKSPACE := --workspace --locked
BUILD := build $(WORKSPACE) --lib --bins --examples

# What could not be run, a line each, with the reason: `make test` ends with these lines.
SKIPPED := target/skipped
COMMA := ,
skip = { mkdir -p target && echo 'skipped: $(1)' | tee -a $(SKIPPED); }

# The crates that are published.
PUBLISHED = $(sort $(shell sed -n 's/^name = "\(highwater[a-z-]*\)"$$/\1/p' $$(grep -L '^publish = false' crates/*/Cargo.toml)))

# The environment of the Python package's tests. What is installed there is in packaging/pins, by version and hash.
VENV := target/venv
PINNED = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes

# Keeps bytecode even where the environment forbids it: compiling PyTorch's takes half of a dry run's processor time.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache

.PHONY: build ui schemas pins python torch torch-wheels with-torch demo check test summary-begins downloads-begin downloads-end bench nightly mutations few-mutations load sanitizers miri parallel ray dry-runs \
	dist floor proof reproducible systems packages verified-packages workflows monitoring trainers engines releases torch-tests site fuzz fuzz-all oracle fuzz-allocator mutants tools formatting scripts recipes licences lints docs doctests tests page browser while-compiling while-testing
# One target after the other, but for those that `make test` runs at once.
ifndef MAY_RUN_AT_ONCE
.NOTPARALLEL:
else
# Cargo has all cores, and would look for make's own count of jobs.
CARGO := env -u MAKEFLAGS -u MFLAGS $(CARGO)
endif

# The release binary at target/release/highwater. From nothing six and a half minutes of processor time, the page with its packages
# and the calculator's WebAssembly among it.
build: ui
	$(CARGO) build --release --locked --bin highwater

# The viewer's page and the calculator in ui/dist, which the binary embeds: 10 s with its packages, else 1 s; the calculator's
# WebAssembly takes 30 s of processor time from nothing. It is not linted: pointers are narrower
# there, so a lint that is expected elsewhere does not apply.
ui: ui/dist/app.js ui/dist/calculator.html

ui/dist/app.js: ui/node_modules/.package-lock.json ui/vite.config.ts $(shell find ui/src ui/public -type f)
	cd ui && $(NPM) run build

# The arithmetic of `highwater estimate --web` is the program's own, as WebAssembly: where Rust lacks the target it is installed,
# and where that cannot be, the program is built without the calculator, and says so.
WASM_TARGET := wasm32-unknown-unknown
WASM := $(or $(CARGO_TARGET_DIR),target)/$(WASM_TARGET)/web/highwater_estimate_web.wasm
ui/dist/calculator.html: ui/dist/app.js ui/pack-calculator.mjs Cargo.lock \
		$(shell find crates/estimate-web crates/documents crates/serve crates/estimate crates/allocator crates/driver -path '*/src/*.rs' -o -name Cargo.toml)
	@test -d "$$(rustc --print target-libdir --target $(WASM_TARGET))" || rustup target add $(WASM_TARGET) || true
	@if test -d "$$(rustc --print target-libdir --target $(WASM_TARGET))"; then \
		RUSTC_WORKSPACE_WRAPPER= $(CARGO) build --locked --profile web --target $(WASM_TARGET) --package highwater-estimate-web --lib && \
		cd ui && $(NPM) run build:calculator -- "$(abspath $(WASM))"; \
	else \
		$(call skip,the calculator of `highwater estimate --web`: it needs the target $(WASM_TARGET) of Rust); \
		echo 'ui: `rustup target add $(WASM_TARGET)`, or the package of your system that has its standard library'; \
	fi

ui/node_modules/.package-lock.json: ui/package-lock.json
	cd ui && $(NPM) ci --no-audit --no-fund

# The Python package in an environment of its own, then its tests, its types, and whether the types of the native half are
# true. What needs torch runs if that is there:
# `make python TORCH=torch` installs it, 3 GB with its libraries. What is skipped says why: it needs torch, or a GPU.
TORCH ?=
ON_ALL_CORES := --numprocesses auto
python: $(VENV)/ready
	$(CARGO) $(BUILD)
	$(VENV)/bin/python packaging/develop.py $(TARGET)
	$(VENV)/bin/python -m pytest $(ON_ALL_CORES) -q -rs
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m mypy.stubtest highwater --mypy-config-file pyproject.toml --allowlist python/stubtest.allow \
		--ignore-unused-allowlist

# What needs torch but no GPU, on the wheel from PyPI without NVIDIA's libraries, for which the null GPU stands: 0.5 GB to
# download, once, and 0.2 GB of Triton; then four minutes. Where the wheels cannot be had, that is said and skipped.
# `python/tests/test_cuda.py` is what only a GPU can run.
TORCH_WHEEL := $(shell sed -n 's/^torch==\([0-9.]*\).*/\1/p' packaging/pins/torch.in)
WITH_TORCH := target/torch-$(TORCH_WHEEL)
TARGET := $(or $(CARGO_TARGET_DIR),target)/debug
torch: python torch-wheels
	@test ! -e $(WITH_TORCH)/ready || $(MAKE) --no-print-directory with-torch

torch-wheels: $(VENV)/ready
	@test -e $(WITH_TORCH)/ready || { rm -rf $(WITH_TORCH) && $(PINNED) --no-deps --target $(WITH_TORCH) -r packaging/pins/torch.txt && \
		touch $(WITH_TORCH)/ready; } || \
		$(call skip,everything that needs PyTorch: the wheels of torch $(TORCH_WHEEL) and of Triton could not be had)

tests-with-torch = PYTHONPATH=$(CURDIR)/$(WITH_TORCH) HIGHWATER_TEST_TORCH=$(CURDIR)/$(VENV)/bin/python \
	$(if $(NEXTEST),$(CARGO) nextest run $(WORKSPACE) --no-fail-fast --test-threads $(TESTS_AT_ONCE) --run-ignored only $(1) --,\
	$(CARGO) test $(WORKSPACE) --tests -- --ignored $(1))
with-torch:
	$(CARGO) $(BUILD)
	mkdir -p target/torch-stubs
	PYTHONPATH=$(CURDIR)/$(WITH_TORCH) $(TARGET)/examples/nullrun $(WITH_TORCH) $(TARGET)/libhighwater_nullgpu_core.so \
		target/torch-stubs H100 $(VENV)/bin/python -m pytest $(ON_ALL_CORES) -q -rs -m 'not cuda' -W ignore \
		$(shell grep -l 'importorskip("torch")' python/tests/*.py)
	PYTHONPATH=$(CURDIR)/$(WITH_TORCH) $(VENV)/bin/python -m pytest $(ON_ALL_CORES) -q -rs python/tests/test_dryrun.py
	$(call tests-with-torch,torch) $(if $(wildcard $(WITH_TORCH)/triton),,--skip triton)
	@$(call skip,python/tests/test_cuda.py: only a GPU can run it; docs/python-gpu.md has a transcript)

$(VENV)/ready: packaging/pins/test.txt
	$(PYTHON) -m venv $(VENV)
	$(PINNED) -r packaging/pins/test.txt
	$(if $(TORCH),$(VENV)/bin/python -m pip install --quiet $(TORCH))
	touch $@

# What packaging/pins/*.in ask for, by version and hash for every system and Python; needs `uv`. The versions that are there stay:
# `make pins UPGRADE=--upgrade` takes the newest.
UPGRADE ?=
pins:
	set -e; for pin in dist release site test torch; do \
		uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --python-version 3.10 --no-annotate --no-header \
			$$(test $$pin != torch || echo --no-deps) packaging/pins/$$pin.in --output-file packaging/pins/$$pin.txt; \
	done

# The JSON Schemas in schemas/, docs/formats.md and the types of the page in ui/src/data/generated, from crates/documents.
schemas: ui/node_modules/.package-lock.json
	$(CARGO) build $(WORKSPACE) --bin highwater-schemas
	$(TARGET)/highwater-schemas
	cd ui && $(NPM) run types

# The report on a real out-of-memory error.
demo: build
	target/release/highwater report testdata/recordings/oom_gpt2_8gib.pickle.gz

# The inner loop: format, lints and unit tests of the crates that differ from `main`, or from another commit with
# `make check BASE=HEAD`, and, if the page differs, its style and types and the tests of the modules that differ. After a change, on a
# busy machine of two cores: 3 s for a small crate, 48 s for the reader of snapshots and the cycles. The page takes 9 s of processor time
# after a change in a view, 16 s where all of its tests are concerned.
BASE ?= $(shell git merge-base HEAD main 2>/dev/null || echo HEAD)
CHANGED = $(shell git diff --name-only $(BASE); git ls-files --others --exclude-standard)
CHANGED_CRATES = $(sort $(foreach path,$(filter crates/%,$(CHANGED)),$(wildcard crates/$(word 2,$(subst /, ,$(path)))/Cargo.toml)))
CHANGED_NAMES = $(sort $(shell sed -n 's/^name = "\(highwater[a-z-]*\)"$$/\1/p' $(CHANGED_CRATES) /dev/null))
CHANGED_PACKAGES = $(CHANGED_NAMES:%=--package=%)
TESTED_PACKAGES = $(patsubst %,--package=%,$(filter-out highwater-python,$(CHANGED_NAMES)))
check: tools formatting
	$(if $(CHANGED_PACKAGES),$(CARGO) clippy $(CHANGED_PACKAGES) --all-targets --locked -- --deny warnings)
	$(if $(TESTED_PACKAGES),$(if $(NEXTEST),$(CARGO) nextest run --no-tests pass,$(CARGO) test) $(TESTED_PACKAGES) --lib --bins --locked)
	$(if $(filter ui/%,$(CHANGED)),cd ui && { test -d node_modules || $(NPM) ci --no-audit --no-fund; } && \
		$(NPM) run check && $(NPM) test -- --changed $(BASE) --passWithNoTests)
	$(if $(CHANGED_PACKAGES)$(filter ui/%,$(CHANGED)),,@echo 'check: no crate and no page differs from $(BASE)')

# Every check, the fast ones first. From nothing 15 to 21 minutes on two cores: a minute up to `ui`; then `lints` builds everything,
# which the others use, in seven.
#
# Clippy is the compiler of our crates, so that one build is both checked and run: `cargo clippy` would check every dependency apart from
# the build. Incremental compilation pays at the second build of a crate; here each is built once. A test that fails names its line without
# debug information.
CLIPPY = $(shell rustc --print sysroot)/bin/clippy-driver
test lints: export RUSTC_WORKSPACE_WRAPPER = $(CLIPPY)
test lints: export CLIPPY_ARGS = --deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
test lints: export CARGO_INCREMENTAL := 0
test lints: export CARGO_PROFILE_DEV_DEBUG := 0
test: summary-begins downloads-begin tools formatting scripts recipes licences ui while-compiling downloads-end while-testing tests
	@test ! -s $(SKIPPED) || cat $(SKIPPED)

# Two targets at once: much of each waits, for a linker, a browser, a type checker, or another process. The output of each comes when it ends.
AT_ONCE = $(MAKE) --no-print-directory --jobs 2 --output-sync=target MAY_RUN_AT_ONCE=yes
while-compiling:
	$(AT_ONCE) lints page packages
while-testing:
	$(AT_ONCE) torch browser doctests workflows few-mutations

summary-begins:
	@rm -f $(SKIPPED)

# Downloads of the last checks run while the first ones compile. If one fails, the check tries it again and says why. The lock ends with the
# process that holds it, however that ends; where there is no `flock`, the checks download for themselves.
DOWNLOADING := target/downloading
downloads-begin:
	@mkdir -p target
	@! command -v flock >/dev/null || flock $(DOWNLOADING) $(MAKE) --no-print-directory torch-wheels SKIPPED=/dev/null >target/downloads.log 2>&1 </dev/null &

downloads-end:
	@! command -v flock >/dev/null || flock $(DOWNLOADING) true

# What the checks need beside Rust and Python.
tools:
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy

formatting:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

# Every Python file compiles, and what makes the files of the benchmarks writes what CPython's pickler would.
scripts:
	$(PYTHON) -m compileall -q benches crates examples fuzz packaging python testdata
	$(PYTHON) benches/gen_snapshot.py --selftest

# The recipes of the made-up files still make the same bytes.
recipes:
	$(PYTHON) testdata/recipes/make_layouts.py target/layouts
	diff -r --exclude=README.md target/layouts testdata/layouts
	$(PYTHON) testdata/recipes/allocator_goldens.py --check
	$(PYTHON) testdata/recipes/make_messages.py target/messages
	diff -r --exclude=README.md --exclude=forms.json target/messages testdata/messages

licences:
ifdef DENY
	$(CARGO) deny --locked check bans licenses sources
else
	@$(call skip,the licences: cargo-deny is not installed)
endif

# Every crate that is published can be packaged: whatever it embeds is in its package. `verified-packages` also builds each from there.
packages: ui
	$(CARGO) package --quiet --no-verify --allow-dirty --locked $(PUBLISHED:%=--package=%) --target-dir target/packages

# Cargo keeps what it unpacked of another such package with the same version.
verified-packages: ui
	rm -rf "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/highwater*
	$(CARGO) package --allow-dirty --locked $(PUBLISHED:%=--package=%) --target-dir target/packages

# The workflows and the action are valid; they call nothing that is not pinned, and no input reaches a shell. So are shell scripts.
workflows: $(VENV)/ready
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(VENV)/bin/zizmor --offline --strict-collection --quiet .github action.yml
	$(VENV)/bin/shellcheck examples/slurm/*.sh packaging/*.sh .ci/run

lints:
	$(CARGO) $(BUILD) --tests

# The examples of every crate and, from the same build, its pages, with warnings denied.
doctests:
	RUSTDOC=$(CURDIR)/packaging/rustdoc.sh $(CARGO) test $(WORKSPACE) --doc

# The pages of the programs, too.
docs:
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc $(WORKSPACE) --no-deps

tests:
ifdef NEXTEST
	$(CARGO) nextest run $(WORKSPACE) --no-fail-fast --test-threads $(TESTS_AT_ONCE)
else
	$(CARGO) test $(WORKSPACE) --lib --bins --tests
endif

# The page's style, types and pure functions.
page: ui
	cd ui && $(NPM) run check
	cd ui && $(NPM) test

# The page in Chromium, served by the debug binary, and the calculator's arithmetic beside the program's: two minutes, and about four
# without the headless shell.
browser: ui
	$(CARGO) $(BUILD)
	cd ui && $(NPM) run e2e

# The program and the two libraries that it carries need the C library and nothing else. A few changed inputs through the debug binary,
# always the same: seconds. `make mutations` has thousands.
few-mutations:
	$(CARGO) $(BUILD)
	$(PYTHON) packaging/floor.py --count 3 --allow libgcc_s.so.1 $(TARGET)/highwater
	$(PYTHON) fuzz/mutations --binary $(TARGET)/highwater --count 100 --seed 1 --drawn --wall 120

# Measures against the budgets and writes docs/benchmarks.md, in two minutes. `make bench BENCH=--large` adds a file of
# ten million entries: 1.3 GB that take two minutes to make, and which CPython needs 7 GB and half a minute to read. The
# allocator is measured against PyTorch's own where `make oracle` has built that.
bench: build
	$(PYTHON) benches/run.py $(BENCH)
	PYTHON=$(PYTHON) node benches/viewer.mjs $(BENCH)
	$(CARGO) build --release --locked --package highwater-allocator --example speed
	$(PYTHON) benches/allocator.py

# Ten minutes of one fuzz target: `make fuzz FUZZ=gguf FUZZ_SECONDS=60`. Needs `cargo install cargo-fuzz --locked`. Not part of
# `make test`, which only replays the inputs that are kept: see fuzz/README.md.
FUZZ ?= snapshot
FUZZ_SECONDS ?= 600
fuzz:
	$(PYTHON) fuzz/seeds.py $(FUZZ)
	$(CARGO) fuzz run $(FUZZ) --sanitizer none fuzz/found/$(FUZZ) fuzz/corpus/$(FUZZ) -- \
		-max_len=200000 -rss_limit_mb=4096 -timeout=20 -max_total_time=$(FUZZ_SECONDS)

# Every fuzz target, one after the other.
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
fuzz-all: $(FUZZ_TARGETS:%=fuzz-target-%)

fuzz-target-%:
	$(MAKE) --no-print-directory fuzz FUZZ=$*

# Everything that takes minutes, hours or large downloads, 18 hours in all; each of it has a small case in `make test`. A line per
# part, so that one can be run alone: the mutations take a quarter of an hour, each of the 15 fuzz targets an hour, the load two,
# the sanitizers ten minutes. `make nightly NIGHT='FUZZ_SECONDS=60 LOAD_SECONDS=60'` gives each part a minute or a few.
NIGHT ?= FUZZ_SECONDS=3600
nightly: build
	$(MAKE) --no-print-directory --keep-going docs verified-packages proof reproducible systems monitoring trainers engines dry-runs releases torch-tests mutations load sanitizers miri parallel ray fuzz-all $(NIGHT)

# Inputs changed by rules, through every command of the release binary: a quarter of an hour at most for those that are drawn, and
# some minutes for the fixed lists. Fails if the time is over before all were tried.
MUTATIONS ?= --count 6000 --seed $(shell date +%j)
mutations: build
	$(PYTHON) fuzz/mutations --binary target/release/highwater $(MUTATIONS)

# `highwater top`, Prometheus and the recorder's socket under load, for an hour each. `make test` does it for seconds.
LOAD_SECONDS ?= 3600
load: $(VENV)/ready
	HIGHWATER_LOAD_SECS=$(LOAD_SECONDS) $(CARGO) test $(WORKSPACE) --test it load::
	HIGHWATER_LOAD_SECS=$(LOAD_SECONDS) $(VENV)/bin/python -m pytest -q python/tests/test_load.py

# Dry runs of several ranks against what the same program took on as many GPUs: `make parallel PARALLEL=measurements
# PARALLEL_PROGRAM=script.py`, half a minute to two for each set-up. benches/dryrun_parallel.py says how the files look.
PARALLEL ?=
PARALLEL_PROGRAM ?=
parallel: build
	@$(if $(and $(PARALLEL),$(wildcard $(WITH_TORCH)/ready)),PYTHONPATH=$(CURDIR)/$(WITH_TORCH) $(PYTHON) benches/dryrun_parallel.py \
		--python $(VENV)/bin/python --data $(PARALLEL) --program $(PARALLEL_PROGRAM),$(call skip,dry runs of several ranks against \
		measured ones: they need measurements (PARALLEL=) and the wheel of torch))

# The dry runs that take longest, of which `make test` has a small case, with the cuDNN that this PyTorch requires: two minutes, and 0.4 GB
# to download, once.
CUDNN := target/cudnn
dry-runs: python torch-wheels
	test -e $(CUDNN)/ready || { $(VENV)/bin/python -m pip install --quiet --no-deps --target $(CUDNN) \
		"$$(sed -n 's/^Requires-Dist: \(nvidia-cudnn-[a-z0-9]*==[0-9.]*\).*/\1/p' $(WITH_TORCH)/torch-*.dist-info/METADATA)" && touch $(CUDNN)/ready; }
	HIGHWATER_TEST_CUDNN=$(CURDIR)/$(CUDNN) $(call tests-with-torch,nightly_)

# Twenty programs, dry, over an old, a middle and the newest release of PyTorch, compared with the one that was measured: `make releases
# RELEASES=2.13.0`. Five minutes for a release, and 1 GB to download, each time: it is deleted before the next. All that were compared, for
# the table in docs/dryrun-accuracy.md: `make releases RELEASES='2.4.1 2.5.1 …' RELEASES_OPTIONS=--write`.
RELEASES ?= 2.4.1 2.8.0 2.15.0
RELEASES_OPTIONS ?=
releases: build torch-wheels
	@$(if $(wildcard $(WITH_TORCH)/ready),$(PYTHON) benches/dryrun_releases.py --python $(VENV)/bin/python --baseline $(WITH_TORCH) \
		$(RELEASES_OPTIONS) $(RELEASES),$(call skip,dry runs over releases of PyTorch: they need the wheel of torch $(TORCH_WHEEL)))

# PyTorch's own tests in dry runs, compared with what passes on a GPU: `make torch-tests TEST_FILE=test_cuda.py`, with a file of PyTorch's
# `test` folder; testdata/torch_tests/README.md says of which release, and where it can be had. Ten minutes for `test_cuda.py`.
TEST_FILE ?=
TEST_NEEDS := target/torch-tests
torch-tests: build torch-wheels
ifneq ($(wildcard $(TEST_FILE)),)
	test -e $(TEST_NEEDS)/ready || { $(VENV)/bin/python -m pip install --quiet --no-deps --target $(TEST_NEEDS) expecttest psutil nvidia-ml-py && \
		touch $(TEST_NEEDS)/ready; }
	PYTHONPATH=$(CURDIR)/$(WITH_TORCH):$(CURDIR)/$(TEST_NEEDS) $(PYTHON) benches/torch_tests.py $(TEST_FILE) --python $(VENV)/bin/python
else
	@$(call skip,the tests of PyTorch itself in dry runs: they need a file of them (TEST_FILE=))
endif

# A Ray cluster of three machines on this one, of which a worker and then a machine is killed, and an S3 server on the loopback: 0.3 GB to
# download, once. `make test` runs the functions that Ray's tasks call, without Ray. And a training under Ray Train, on the null GPU.
ray: python
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'ray[data,train]<2.64' 'moto[server]' || \
		$(call skip,a Ray cluster and an S3 server: `ray[data]` or `moto[server]` could not be had)
	$(if $(wildcard $(WITH_TORCH)/ready),PYTHONPATH=$(CURDIR)/$(WITH_TORCH)) $(VENV)/bin/python -m pytest -q -rs python/tests/test_ray.py \
		python/tests/test_trainers.py::test_a_worker_of_ray_is_recorded

# What is released, into target/dist: wheels, an sdist, tarballs, a Debian package, an image, notices, a bill of materials. For each of two
# processors, and for the static program, seven minutes of processor time from nothing. `make dist DIST='--target x86_64-unknown-linux-gnu'` builds for one.
DIST_VENV := target/dist-venv
DIST ?=
dist: ui $(DIST_VENV)/ready
	$(PYTHON) packaging/dist.py $(DIST)
	$(MAKE) --no-print-directory floor

$(DIST_VENV)/ready: packaging/pins/dist.txt
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r packaging/pins/dist.txt
	touch $@

# The oldest glibc that these run on, by every ELF file in them: on x86-64 the program and the two libraries of a dry run.
floor:
	$(PYTHON) packaging/floor.py --at-most 2.17 --count 3 $(wildcard target/dist/*x86_64*.whl target/dist/*x86_64*gnu.tar.gz target/dist/*amd64.deb)
	$(PYTHON) packaging/floor.py --at-most 0 $(wildcard target/dist/*musl.tar.gz)
	$(PYTHON) packaging/floor.py --at-most 2.17 $(wildcard target/dist/*aarch64*.whl target/dist/*aarch64*.tar.gz target/dist/*arm64.deb)

# Each of these installed and used in bare chroots of old releases of Debian; needs root, debootstrap, skopeo, umoci and qemu-user-static, and says
# what it had to leave out. Two minutes after the chroots are there.
proof: dist
	@if test "$$(id -u)" = 0 && which debootstrap skopeo umoci qemu-aarch64-static objdump >/dev/null; then \
		$(PYTHON) packaging/prove.py --torch $(WITH_TORCH); \
	else \
		$(call skip,the proof of the artifacts: it needs root$(COMMA) debootstrap$(COMMA) skopeo$(COMMA) umoci$(COMMA) qemu-user-static and binutils); \
	fi

# Two builds of one commit, in two directories, are equal.
reproducible: dist
	rm -rf target/again && git clone --quiet --local . target/again/elsewhere && cp -r ui/dist target/again/elsewhere/ui/
	ln -s $(CURDIR)/ui/node_modules target/again/elsewhere/ui/node_modules
	mkdir target/again/elsewhere/target && ln -s $(CURDIR)/$(DIST_VENV) target/again/elsewhere/$(DIST_VENV)
	cd target/again/elsewhere && $(PYTHON) packaging/dist.py $(DIST)
	diff target/dist/SHA256SUMS target/again/elsewhere/target/dist/SHA256SUMS

# What needs no CUDA compiles without a warning for the systems that have none, as far as that can be told from here: Zig has their headers
# for the C inside. It is built and run there by the workflow `ci`.
systems: $(DIST_VENV)/ready
	for target in x86_64-pc-windows-gnu aarch64-apple-darwin; do \
		test -d "$$(rustc --print target-libdir --target $$target)" || rustup target add $$target && \
		PATH=$(CURDIR)/$(DIST_VENV)/bin:$$PATH RUSTFLAGS='--deny warnings' \
			cargo-zigbuild check --locked --target $$target --target-dir target/systems --package highwater || exit 1; \
	done

# `highwater top --prometheus` on made-up GPUs, read by a real Prometheus: each expression of the dashboard and of the alerts has an answer.
monitoring:
	@if which prometheus promtool >/dev/null; then \
		$(CARGO) $(BUILD) && $(PYTHON) packaging/monitoring.py $(TARGET); \
	else \
		$(call skip,the dashboard and the alerts: they need `apt-get install prometheus`); \
	fi

# The programs of docs/integrations, dry, with the real trainers: 0.2 GB to download, once.
TRAINERS := target/trainers
trainers: python
	test -e $(TRAINERS)/ready || { $(VENV)/bin/python -m pip install --quiet --no-deps --target $(TRAINERS) -r examples/trainers/requirements.txt && \
		touch $(TRAINERS)/ready; }
	PYTHONPATH=$(CURDIR)/$(TRAINERS):$(CURDIR)/$(WITH_TORCH) $(VENV)/bin/python -m pytest -q -rs python/tests/test_trainers.py

# vLLM's start over the null GPU, a minute for each of 15 small models, and the arithmetic of caches beside the own functions of vLLM and
# SGLang: 0.9 GB to download, once.
ENGINES := target/engines
SGLANG := 0.5.23
engines: build torch-wheels
	test -e $(ENGINES)/ready || { $(PYTHON) -m venv $(ENGINES) && \
		$(ENGINES)/bin/python -m pip install --quiet --no-deps -r benches/engine_requirements.txt && \
		$(PYTHON) -m pip download --quiet --no-deps --only-binary :all: --dest $(ENGINES)/wheels sglang==$(SGLANG) && \
		$(PYTHON) -m zipfile -e $(ENGINES)/wheels/sglang-*.whl $(ENGINES)/sglang && touch $(ENGINES)/ready; }
	$(PYTHON) benches/serving_functions.py $(ENGINES)/lib/python3*/site-packages $(ENGINES)/sglang
	PYTHONPATH=$(CURDIR)/$(WITH_TORCH) $(PYTHON) benches/engine_starts.py --python $(ENGINES)/bin/python

# The documentation and the calculator as pages, in target/site.
site: ui $(VENV)/ready
	$(PINNED) -r packaging/pins/site.txt
	$(VENV)/bin/python packaging/site.py target/site

# The tests of every crate with `unsafe` under AddressSanitizer, whose runtime comes with the stable toolchain; a library that
# a test loads finds it in the test's program (`-rdynamic`). The tests that preload a library into other programs
# are left out: these would have to be built with the sanitizer too. The made-up driver, which is unloaded again, leaves its script behind:
# the monitor is not searched for leaks.
HOST = $(shell rustc --print host-tuple 2>/dev/null)
ASAN = RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=address -Clink-arg=-rdynamic' $(CARGO) test --locked --target $(HOST) --target-dir target/asan
sanitizers:
	$(ASAN) --tests --package highwater-nullgpu-core -- --skip a_process_ends_with_the_one_that_runs_it
	$(ASAN) --tests --package highwater-fake-nvml --package highwater-estimate-web --package highwater-huge-pages --package highwater-cupti
	ASAN_OPTIONS=detect_leaks=0 $(ASAN) --tests --package highwater-monitor
	$(ASAN) --package highwater-sandbox --lib

# The calculator's module under Miri, which only nightly toolchains have: questions that it answers within minutes there, for a whole estimate
# takes an hour. The other crates with `unsafe` call functions of the C library that Miri lacks.
miri:
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
		$(CARGO) +nightly miri test --locked --target-dir target/miri --lib --package highwater-estimate-web -- \
			a_question_about_serving bad_input_is_said; \
	else \
		$(call skip,Miri: there is no nightly toolchain with it; `rustup toolchain install nightly --component miri$(COMMA)rust-src`); \
	fi

# PyTorch's own allocator on a made-up device, from released wheels: see oracle/README.md. 2 GB to download, once.
ORACLES ?= 2.8.0 2.11.0 2.15.0
oracle: $(ORACLES:%=target/oracle/%/oracle)

target/oracle/%/oracle: $(wildcard oracle/*.sh oracle/*.c oracle/*.h oracle/*.cpp oracle/cuda_shim/*)
	ls target/wheels/torch-$*-*.whl >/dev/null 2>&1 || $(PYTHON) -m pip download torch==$* --no-deps --only-binary :all: \
		--python-version 3.12 --platform manylinux_2_28_x86_64 --dest target/wheels
	PYTHON=$(PYTHON) oracle/build.sh target/wheels/torch-$*-*.whl target/oracle/$*

# Random programs through these and through our allocator, every byte compared: `make fuzz-allocator SECONDS=60`. What
# can be set beside: crates/allocator/tests/differential/main.rs. Not part of `make test`: what it finds becomes a test.
SECONDS ?= 600
fuzz-allocator: oracle
	HIGHWATER_ORACLE=$(CURDIR)/target/oracle HIGHWATER_FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked \
		--package highwater-allocator --test differential every_program -- --nocapture

# Changes the policy of the allocator in 800 ways, one at a time: the goldens or a unit test must notice each. An hour on
# two idle cores. What none can notice: .cargo/mutants.toml. Needs `cargo install cargo-mutants --locked`. Not part of
# `make test`: what it finds becomes a test.
mutants:
	$(CARGO) mutants --package highwater-allocator --output target
