# From a bare Debian 12 or Ubuntu 24.04 machine to a running Stoker. Every target installs what it
# needs and is missing, and says so in one line; a second run finds everything in place.
# What is built, and how, is in CMakeLists.txt and CMakePresets.json: this file only calls them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

PYTHON ?= python3
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
FUZZ_RUNS ?=  # executions of each target, instead of FUZZ_SECONDS
MUTATIONS ?= 1000
CRASH_CUTS ?= 1000
KILL_CYCLES ?= 1000
JOB_PAIRS ?= 200
DISK_ROUNDS ?= 100
BENCH_FLAGS ?=  # --write-docs renews the tables of docs/benchmarks.md

# The wheel that the tests build is made of what `make build` has compiled already. The compiler is
# named here because ccache keeps apart what differently named ones made, and paths are made relative
# because each build folder has precompiled headers of its own, which also need the sloppiness.
export CXX := c++
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_SLOPPINESS := pch_defines,time_macros
export CCACHE_PCH_EXTSUM := true

# Hundreds of processes of the tests import the package: compiling its sources is half of that.
export PYTHONDONTWRITEBYTECODE :=

VENV_PYTHON := $(CURDIR)/.venv/bin/python
RESULTS := build/results
SAY = @printf '%s: %s\n' '$@'

# Packages by the names Debian 12 and Ubuntu 24.04 share (in Ubuntu, clang-*-19 come from universe).
APT_BUILD := g++ cmake ninja-build pkg-config liburing-dev libxxhash-dev libisal-dev libssl-dev \
  libzstd-dev zlib1g-dev libbrotli-dev libbz2-dev libsnappy-dev libcurl4-openssl-dev \
  nlohmann-json3-dev libcli11-dev libfmt-dev python3-dev python3-venv ccache
APT_TEST := $(APT_BUILD) libgtest-dev libbenchmark-dev clang-format-19 e2fsprogs xfsprogs btrfs-progs \
  ceph-mon ceph-osd radosgw ceph-common nginx-light openssl curl
APT_DOCS := doxygen
APT_LINT := $(APT_TEST) clang-19 clang-tidy-19 $(APT_DOCS)
APT_INTEROP := $(APT_TEST) clang-19 debootstrap zsh groff mandoc
APT_FUZZ := $(APT_BUILD) clang-19 libclang-rt-19-dev
APT_CLUSTER := $(APT_TEST) ceph-mgr ceph-mds ceph-fuse
APT_BENCH := $(APT_TEST) fio

# The checks of the tree that are no C++ tests: pointless under a sanitizer.
NOT_CPP := ^(check|install)$$

.PHONY: help
help:
	@echo "Stoker: no accelerator waits for storage, and no committed checkpoint is ever lost."
	@echo
	@echo "  make demo     build, look at this machine's storage, pack, stream, be killed and resume"
	@echo "                (3 to 5 minutes the first time on two cores)"
	@echo "  make test     build and run every test; the last line counts them"
	@echo
	@echo "  make build    build/release/stoker, and the Python package in .venv"
	@echo "  make wheel    a wheel with its libraries inside, and a source distribution, in dist/"
	@echo "  make wheel-test  that wheel on a bare Debian 12 (as root), and one made from the sdist"
	@echo "  make crash    power cuts on ext4, XFS and btrfs at CRASH_CUTS ($(CRASH_CUTS)) block writes each, and"
	@echo "                KILL_CYCLES ($(KILL_CYCLES)) runs ended by kill -9, JOB_PAIRS ($(JOB_PAIRS)) pairs of jobs that"
	@echo "                start at once in one directory, and nodes that lose or exchange their disks in"
	@echo "                DISK_ROUNDS ($(DISK_ROUNDS)) rounds (an hour, as root)"
	@echo "  make cluster  the loader, uploads and the cache on a Ceph cluster of this machine, whose OSDs are"
	@echo "                killed and stopped, whose sockets fail and whose gateway says SlowDown (ten"
	@echo "                minutes, as root)"
	@echo "  make interop  our formats beside several versions of webdataset, streaming, litdata, tfrecord,"
	@echo "                safetensors; the loader in Lightning and Accelerate; clang, zsh, mandoc"
	@echo "  make gpu-bundle  collect what a GPU machine without a network lacks, in build/gpu-bundle"
	@echo "  make gpu      there: build the Python module with that, and run the tests that need a GPU"
	@echo "  make gpu-bench  there: fill the table of docs/benchmarks.md, in ten minutes"
	@echo "  make bench    micro-benchmarks, and comparisons with fio and other loaders (minutes)"
	@echo "  make lint     format, layers, ruff, mypy, clang thread-safety and clang-tidy (minutes)"
	@echo "  make asan     tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "  make tsan     tests under ThreadSanitizer"
	@echo "  make fuzz     each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)), or FUZZ_RUNS times"
	@echo "  make mutations  a million mutated manifests through the reader, and MUTATIONS ($(MUTATIONS)) through"
	@echo "                each command and each kind of restore, under sanitizers (minutes)"
	@echo "  make format   rewrite C++ and Python sources in the project's format"
	@echo "  make stubs    regenerate python/stoker/_native.pyi after an API change"
	@echo "  make abi      record the symbols that libstoker.so exports in tests/golden/abi"
	@echo "  make docs     a reference of the public headers in build/docs"
	@echo "  make clean    remove build/, .venv/ and what tools left behind"

# --- Set-up ---------------------------------------------------------------------------------------

.PHONY: apt-build apt-test apt-lint apt-docs apt-interop apt-fuzz apt-cluster apt-bench
apt-build: ; @tools/setup_apt.sh $(APT_BUILD)
apt-test: ; @tools/setup_apt.sh $(APT_TEST)
apt-lint: ; @tools/setup_apt.sh $(APT_LINT)
apt-docs: ; @tools/setup_apt.sh $(APT_DOCS)
apt-interop: ; @tools/setup_apt.sh $(APT_INTEROP)
apt-fuzz: ; @tools/setup_apt.sh $(APT_FUZZ)
apt-cluster: ; @tools/setup_apt.sh $(APT_CLUSTER)
apt-bench: ; @tools/setup_apt.sh $(APT_BENCH)

# The stamp lies inside .venv, so that whoever removes one removes the other.
VENV := .venv/.stoker-ready
$(VENV): tools/requirements-dev.txt tools/requirements-torch.txt tools/setup_venv.sh | apt-build
	@tools/setup_venv.sh $(PYTHON) .venv tools/requirements-dev.txt
	@touch $@

# --- Builds ---------------------------------------------------------------------------------------

# Ninja decides what there is to do. Configuring again is left to it as well: it knows the presets
# only through CMakeLists.txt, hence the dependency on them here.
build/%/build.ninja: CMakePresets.json Makefile $(VENV)
	@printf '%s: configuring\n' 'build/$*'
	@mkdir -p build
	@cmake --preset $* -DPython_EXECUTABLE=$(VENV_PYTHON) \
	  $(if $(filter release,$*),-DSTOKER_PYTHON=ON) >build/$*.configure.log 2>&1 \
	  || { cat build/$*.configure.log; exit 1; }
	@touch $@
.PRECIOUS: build/%/build.ninja

.PHONY: build
build: apt-build build/release/build.ninja
	$(SAY) "compiling the command and the Python module (7 core-minutes the first time: 4 minutes on two cores)"
	@cmake --build build/release --parallel $(JOBS) --target stoker_cli _native

# The tests stand beside what they test, in the same tree: nothing is compiled twice.
.PHONY: build-tests
build-tests: apt-test build
	$(SAY) "compiling the tests (some minutes the first time)"
	@cmake build/release -DSTOKER_DEVELOPER_MODE=ON >build/release.configure.log 2>&1 \
	  || { cat build/release.configure.log; exit 1; }
	@cmake --build build/release --parallel $(JOBS) --target all stoker_headers_alone

# --- What people run ------------------------------------------------------------------------------

.PHONY: demo
demo: build
	@tools/demo.sh build/release/stoker $(VENV_PYTHON)

.PHONY: wheel
wheel: apt-build $(VENV)
	$(SAY) "compiling what is missing, and putting the libraries into the wheel"
	@tools/make_wheel.sh $(VENV_PYTHON) dist
	@tools/make_sdist.sh $(VENV_PYTHON) dist

.PHONY: wheel-test
wheel-test: apt-interop wheel
	$(SAY) "the wheel in a new environment, with the libraries hidden, and on a bare Debian"
	@STOKER_WHEEL=$$(echo $(CURDIR)/dist/*.whl) $(VENV_PYTHON) -m pytest python/tests/test_package.py
	@tools/try_bare_machine.sh $(VENV_PYTHON) build/bare dist/*.whl
	$(SAY) "a wheel from the source distribution"
	@rm -rf build/sdist && mkdir -p build/sdist && tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	@CCACHE_BASEDIR=$(CURDIR)/build/sdist \
	  tools/make_wheel.sh $(VENV_PYTHON) build/wheel-from-sdist build/sdist

# Both runs continue after a failure; the summary counts and decides. They run at the same time: tests of
# both often wait for disks and for processes that they have started. The Python tests are in the background,
# because conftest.py restores Ctrl-C there, and what they print follows at the end.
.PHONY: test
test: build-tests
	$(SAY) "running the C++ tests and the checks of the tree, and at the same time the Python tests"
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@status=0; \
	$(VENV_PYTHON) -m pytest --numprocesses $$(($(JOBS) + 1)) --dist worksteal \
	  --junitxml=$(RESULTS)/pytest.xml >$(RESULTS)/pytest.log 2>&1 & \
	ctest --test-dir build/release --parallel $(JOBS) --output-on-failure --no-tests=error \
	  --output-junit $(CURDIR)/$(RESULTS)/ctest.xml || status=1; \
	wait $$! || status=1; \
	cat $(RESULTS)/pytest.log; \
	$(VENV_PYTHON) tools/test_summary.py $(RESULTS)/ctest.xml $(RESULTS)/pytest.xml || status=1; \
	exit $$status

# The tests that `make test` runs briefly, at length; on the model disk as well, where any STOKER_CRASH_CUTS
# means all states. What each filesystem went through is in its own output, which ctest keeps in the report.
.PHONY: crash
crash: build-tests
	$(SAY) "power cuts, failed blocks and full disks, then kill -9 and pairs of jobs (half an hour)"
	@rm -rf $(RESULTS)/crash && mkdir -p $(RESULTS)/crash
	@status=0; \
	STOKER_CRASH_CUTS=$(CRASH_CUTS) ctest --test-dir build/release --label-regex '^crash$$' \
	  --parallel $(JOBS) --output-on-failure --no-tests=error \
	  --output-junit $(CURDIR)/$(RESULTS)/crash/ctest.xml || status=1; \
	STOKER_KILL_CYCLES=$(KILL_CYCLES) STOKER_JOB_PAIRS=$(JOB_PAIRS) STOKER_STORE_CASES=all \
	  STOKER_DISK_ROUNDS=$(DISK_ROUNDS) \
	  $(VENV_PYTHON) -m pytest --numprocesses $(JOBS) \
	  python/tests/checkpoint/test_checkpoint_killed.py \
	  python/tests/checkpoint/ranks/test_checkpoint_jobs.py \
	  python/tests/checkpoint/ranks/test_checkpoint_store_messages.py \
	  python/tests/checkpoint/ranks/test_disk_adversary.py \
	  --junitxml=$(RESULTS)/crash/pytest.xml || status=1; \
	grep -hE '^[a-z0-9]+: [0-9]+ (block writes|faults)' $(RESULTS)/crash/ctest.xml || true; \
	$(VENV_PYTHON) tools/test_summary.py $(RESULTS)/crash/*.xml || status=1; \
	exit $$status

# Three OSDs on files, two copies of all data, CephFS through FUSE: see tests/servers/ceph.sh.
.PHONY: cluster
cluster: apt-cluster build
	$(SAY) "a Ceph cluster that is disturbed while data flows (ten minutes)"
	@rm -rf $(RESULTS)/cluster && mkdir -p $(RESULTS)/cluster
	@status=0; \
	STOKER_CLUSTER=$(CURDIR)/build/cluster STOKER_COMMAND=$(CURDIR)/build/release/stoker \
	  PYTHONPATH=$(CURDIR)/python $(VENV_PYTHON) -m pytest -q -ra -p no:cacheprovider -c /dev/null \
	  --rootdir tests/cluster --junitxml=$(RESULTS)/cluster/pytest.xml tests/cluster || status=1; \
	tests/servers/ceph.sh stop build/cluster; \
	$(VENV_PYTHON) tools/test_summary.py $(RESULTS)/cluster/pytest.xml || status=1; \
	exit $$status

.PHONY: lint
lint: apt-lint $(VENV) build/tidy/build.ninja
	$(SAY) "format, layers, ruff, mypy"
	@tools/check_format.sh
	@$(VENV_PYTHON) tools/check_layers.py
	@$(VENV_PYTHON) tools/check_store_seam.py
	@$(VENV_PYTHON) -m ruff check --quiet .
	@$(VENV_PYTHON) -m ruff format --quiet --check .
	@$(VENV_PYTHON) -m mypy
	@tools/make_docs.sh build/docs >/dev/null
	@$(VENV_PYTHON) tools/check_doc_types.py
	$(SAY) "clang-19 with thread-safety warnings as errors, and clang-tidy-19 (minutes)"
	@cmake --build build/tidy --parallel $(JOBS) --target all bench/all stoker_headers_alone

.PHONY: asan
asan: export ASAN_OPTIONS = detect_leaks=1:halt_on_error=1:strict_string_checks=1
asan: export UBSAN_OPTIONS = print_stacktrace=1:halt_on_error=1
asan: apt-test build/asan/build.ninja
	$(SAY) "building and testing under AddressSanitizer and UndefinedBehaviorSanitizer"
	@cmake --build build/asan --parallel $(JOBS)
	@ctest --test-dir build/asan --parallel $(JOBS) --output-on-failure --no-tests=error \
	  --label-exclude '$(NOT_CPP)'

.PHONY: tsan
tsan: export TSAN_OPTIONS = halt_on_error=1:second_deadlock_stack=1:suppressions=$(CURDIR)/tests/support/tsan_suppressions.txt
tsan: apt-test build/tsan/build.ninja
	$(SAY) "building and testing under ThreadSanitizer"
	@cmake --build build/tsan --parallel $(JOBS)
	@ctest --test-dir build/tsan --parallel $(JOBS) --output-on-failure --no-tests=error \
	  --label-exclude '$(NOT_CPP)'

.PHONY: fuzz
fuzz: apt-fuzz build/fuzz/build.ninja
	$(SAY) "each fuzz target $(if $(strip $(FUZZ_RUNS)),$(strip $(FUZZ_RUNS)) times,for $(FUZZ_SECONDS) seconds)"
	@cmake --build build/fuzz --parallel $(JOBS)
	@tools/run_fuzz.sh build/fuzz/fuzz build/fuzz-corpus $(FUZZ_SECONDS) $(strip $(FUZZ_RUNS))

.PHONY: mutations
mutations: apt-fuzz build-tests build/fuzz/build.ninja build/asan-python/build.ninja
	$(SAY) "mutated manifests, notes, catalogs and lock records (minutes)"
	@cmake --build build/fuzz --parallel $(JOBS) --target checkpoint_reader_fuzz
	@cmake --build build/asan-python --parallel $(JOBS) --target _native
	@tools/run_mutations.sh $(VENV_PYTHON) $(MUTATIONS)

.PHONY: interop
interop: apt-interop build-tests wheel-test
	$(SAY) "programs of clang, zsh, groff and mandoc, which make test leaves out where they are not installed"
	@ctest --test-dir build/release --label-regex '^install$$' --output-on-failure --no-tests=error
	@$(VENV_PYTHON) -m pytest python/tests/commands
	$(SAY) "our formats beside the real packages (installs them the first time)"
	@cmake --build build/release --parallel $(JOBS) --target interop_tools
	@tools/run_interop.sh $(PYTHON) build/release/tests/interop

# The GPU machine may have no network and lack some headers: carry build/gpu-bundle there.
.PHONY: gpu-bundle gpu gpu-bench
gpu-bundle: apt-build $(VENV)
	@PYTHON=$(VENV_PYTHON) tools/make_gpu_bundle.sh build/gpu-bundle

gpu: export CMAKE_CXX_COMPILER_LAUNCHER =
gpu:
	@tools/run_gpu.sh build/gpu-bundle $(PYTHON)

gpu-bench: export CMAKE_CXX_COMPILER_LAUNCHER =
gpu-bench:
	@tools/run_gpu.sh build/gpu-bundle $(PYTHON) bench

.PHONY: bench
bench: apt-bench build-tests
	$(SAY) "micro-benchmarks, then the comparisons with fio and with other loaders (a quarter of an hour)"
	@cmake --build build/release --parallel $(JOBS) --target bench/all
	@tools/run_bench.sh build/release/bench
	@$(VENV_PYTHON) tools/bench_fio.py build/release/stoker $(BENCH_FLAGS)
	@$(VENV_PYTHON) bench/raw_disk.py build/bench/raw
	@tools/setup_peers.sh $(PYTHON)
	@PYTHONPATH=python build/peers/bin/python bench/loader_peers.py $(BENCH_FLAGS)
	@PYTHONPATH=python build/peers/bin/python bench/loader_front.py $(BENCH_FLAGS)
	@build/peers/bin/python bench/pack_peers.py build/release/stoker $(BENCH_FLAGS)
	@PYTHONPATH=python build/peers/bin/python bench/checkpoint_peers.py $(BENCH_FLAGS)
	@PYTHONPATH=python build/peers/bin/python bench/catalog_cost.py $(BENCH_FLAGS)
	@PYTHONPATH=python build/peers/bin/python bench/store_peers.py $(BENCH_FLAGS)

.PHONY: format
format: apt-test $(VENV)
	@tools/check_format.sh --fix
	@$(VENV_PYTHON) -m ruff check --quiet --fix .
	@$(VENV_PYTHON) -m ruff format --quiet .

.PHONY: stubs
stubs: build
	@$(VENV_PYTHON) tools/make_stubs.py --write

.PHONY: abi
abi: build
	@cmake --build build/release --parallel $(JOBS) --target stoker_shared
	@$(VENV_PYTHON) tools/check_abi.py build/release/libstoker.so --write

.PHONY: docs
docs: apt-docs
	@tools/make_docs.sh build/docs

.PHONY: clean
clean:
	rm -rf build dist .venv .mypy_cache .ruff_cache .pytest_cache python/stoker/*.so
	find python tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
