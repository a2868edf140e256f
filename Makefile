# make help lists the targets. JOBS sets how many compilers run at once.

.DEFAULT_GOAL := all
.PHONY: all bootstrap demo test bench lint format soak clean help

PYTHON := .venv/bin/python

all: bootstrap  ## install what is missing, build, install the package and the command into .venv
	scripts/build release
	cmake --install build/release --prefix .venv --component python >build/release/install.log

bootstrap:
	@scripts/bootstrap

demo: all  ## the walk-through: plan, train on three local nodes, fuse, evaluate with plain PyTorch
	$(PYTHON) examples/digits/demo.py --folder build/demo

test: all  ## all tests: C++, sanitizers, Python, a short run of the fuzzers
	@scripts/test

bench: all  ## everything that is measured against others: sockets, pipelines, optimizers, steps
	benchmarks/run

lint: bootstrap  ## clang-format, clang-tidy, ruff
	@scripts/lint

format: bootstrap  ## bring all code into its format
	git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs clang-format -i
	.venv/bin/ruff check --fix --exit-zero .
	.venv/bin/ruff format .

soak: all  ## the fuzzers for ten minutes each, protocols, transport and pipelines under faults and for hours, every test twenty times
	FUZZ_SECONDS=600 scripts/fuzz
	build/release/cli/ravnest simulate --protocol pipeline --seeds 100000
	build/release/tests/soak/transport_simulation --seeds 100000
	build/release/tests/soak/council_simulation --seeds 1000000
	build/release/tests/soak/transport_faults 1000
	build/release/tests/soak/transport_mixed_load 600
	$(PYTHON) tests/soak/pipeline_kills.py 50
	$(PYTHON) tests/soak/node_endings.py 50
	$(PYTHON) tests/soak/clusters.py
	$(PYTHON) -m pytest -m soak -n 2 --dist worksteal
	$(PYTHON) tests/soak/pipeline_memory.py 3600
	ctest --preset release --repeat until-fail:20

clean:  ## remove what was built; .venv stays
	rm -rf build dist

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
