# make help lists the targets. JOBS sets how many compilers run at once.

.DEFAULT_GOAL := all
.PHONY: all bootstrap tools demo test check bench install wheel lint format soak clean help

PYTHON := .venv/bin/python
PREFIX := /usr/local

# $(call build,TARGETS): builds, by default everything, and installs the package and the command into .venv
define build
scripts/build release $(1)
@cmake --install build/release --prefix .venv --component python >build/release/install.log
endef

all: bootstrap  ## install what is missing, build, install the package and the command into .venv
	$(call build,product)

bootstrap:
	@scripts/bootstrap

tools:
	@scripts/bootstrap --tests

demo: all  ## the walk-through: plan, train on three local nodes, fuse, evaluate with plain PyTorch
	$(PYTHON) examples/digits/demo.py --folder build/demo

test: tools  ## all tests: C++, Python, sanitizers, fuzzers' corpora, docs, lint
	$(call build)
	@scripts/test

check: tools  ## what to run before a commit: lint of what changed, C++ tests, the quick Python tests
	$(call build)
	@scripts/check

bench: tools  ## everything that is measured against others: sockets, pipelines, optimizers, steps
	$(call build)
	benchmarks/run

install: bootstrap  ## the C++ package (headers, libraries, find_package) and the command, under PREFIX
	scripts/build release package
	@cmake --install build/release --prefix $(PREFIX) --component cpp >build/release/install-cpp.log

wheel: tools  ## a wheel of the Python package, in dist; it names the torch that it is built against
	.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

lint: tools  ## clang-format, order of the rooms, ruff, pyright, locks, clang-tidy on every file
	@scripts/lint

format: tools  ## bring all code into its format
	git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs clang-format -i
	.venv/bin/ruff check --fix --exit-zero .
	.venv/bin/ruff format .

soak: tools  ## clang-tidy on every file, the fuzzers for ten minutes each, protocols, transport and pipelines under faults and for hours, every test twenty times
	$(call build)
	scripts/build release soak_programs
	@scripts/lint
	FUZZ_SECONDS=600 scripts/fuzz
	build/release/cli/ravnest simulate --protocol pipeline --seeds 100000
	build/release/tests/soak/transport_simulation --seeds 100000
	build/release/tests/soak/agreement_simulation --seeds 1000000
	build/release/tests/soak/rank_ending_simulation --seeds 1000000
	build/release/tests/soak/planner_against_brute_force --seeds 10000
	build/release/tests/soak/transport_faults 1000
	build/release/tests/soak/transport_mixed_load 600
	$(PYTHON) tests/soak/pipeline_kills.py 50
	$(PYTHON) tests/soak/node_endings.py 50
	$(PYTHON) tests/soak/rank_endings.py 50
	$(PYTHON) tests/soak/object_store_kills.py 50
	$(PYTHON) tests/soak/checkpoint_kills.py 25
	$(PYTHON) tests/soak/clusters.py
	$(PYTHON) -m pytest -m soak -n 2 --dist worksteal
	$(PYTHON) -m pytest -n 2 --dist worksteal --times 200 tests/python/training/test_node_starts.py \
		tests/python/training/test_node_failures.py::test_an_optimizer_that_can_not_be_made
	$(PYTHON) tests/soak/pipeline_memory.py 3600
	tests/soak/wheel
	tests/soak/bare_machine
	tests/soak/bare_machine trixie "make"
	ctest --preset release --repeat until-fail:20

clean:  ## remove what was built; .venv stays
	rm -rf build dist

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
