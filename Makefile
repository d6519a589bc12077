# Every target makes .venv with plain pip where it is missing and keeps it up to date.
#   make demo    train the losses on real measurements and compare them
#   make test    the whole default test suite
#   make reproduce   the paper's tables, simulation and lemmas at a small size, in build/reproduction
#   make check   lint, formatting, strict types
#   make docs    the documentation site, in build/site; runs its examples
#   make bench   measure speed side by side (installs what it compares with)
#   make fuzz    30,000 random calls of the losses, against a slow reference in float64
#   make test-integrations   the losses inside other libraries (installs those)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PROCESSES ?= 2
CASES ?= 30000

PAGES := docs README.md reproduction/README.md benchmarks/README.md

.PHONY: demo test reproduce fuzz test-integrations check docs bench clean

demo: $(INSTALLED)
	$(BIN)/bayescl compare arrays --config examples/watch.yaml

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PROCESSES)

reproduce: $(INSTALLED)
	$(BIN)/python -m reproduction tables --size smoke --out build/reproduction/tables
	$(BIN)/python -m reproduction simulate --anchors 100 --draws 4 --out build/reproduction/simulation
	$(BIN)/python -m reproduction lemmas --anchors 100 --draws 4 --out build/reproduction/simulation
	$(BIN)/python -m reproduction estimation --draws 4 --seeds 2 --epochs 2 --out build/reproduction/estimation

fuzz: $(INSTALLED)
	OMP_NUM_THREADS=1 BAYESCL_CALLS=$(CASES) $(BIN)/python -m pytest -n $(PROCESSES) tests/library/losses/test_fuzz.py

test-integrations: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt \
		--constraint tests/library/integrations/constraints.txt --editable '.[dev,integrations]' --editable ./lab
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PROCESSES) tests/library/integrations src/bayescl/integrations

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python docs/quotes.py --check $(PAGES)
	$(BIN)/mypy

docs: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs]' --editable ./lab
	OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m sphinx -W --keep-going -b html docs build/site

bench: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt \
		--constraint tests/library/integrations/constraints.txt \
		pytorch-metric-learning lightly
	$(BIN)/python benchmarks/loss_speed.py
	$(BIN)/python benchmarks/loss_memory.py
	$(BIN)/python docs/quotes.py benchmarks/README.md

$(INSTALLED): pyproject.toml lab/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable ./lab
	touch $@

clean:
	rm -rf $(VENV) build docs/gallery docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
