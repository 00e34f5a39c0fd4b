# Every command a contributor needs. Plain `make` explains them.
#
# Stamp files make repeated runs quick. Those about the environment live in the environment, so that
# deleting it forgets them; those about compiled code live in build/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
export EMBERMQ_COMPILE ?= auto
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --quiet --no-input
# The package is always linked uncompiled; `extensions` then compiles in place, and only what changed.
LINK := EMBERMQ_COMPILE=off $(PIP) --no-build-isolation --editable

SOURCES := $(shell find src setup.py -name '*.py' -o -name '*.pxd' -o -name '*.pyx')
NODE_DIR := tests/interop/node

.PHONY: help
help:  ## show this
	@echo 'EmberMQ: make <what>'
	@echo
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'EMBERMQ_COMPILE=auto|require|off says whether the hot modules are compiled (now: $(EMBERMQ_COMPILE)).'
	@echo 'SERVE="--amqp-port 5673" gives flags to `make run`.'
	@echo 'T="tests/unit -k frame" narrows `make test-compiled` and `make test-interpreted`.'

# ---------------------------------------------------------------- setting up

$(VENV)/.linked: pyproject.toml setup.py tools/make-venv.sh
	tools/make-venv.sh $(VENV)
	@touch $@

# One stamp per mode: changing EMBERMQ_COMPILE builds again.
EXTENSIONS := build/.extensions-$(EMBERMQ_COMPILE)
$(EXTENSIONS): $(VENV)/.linked $(SOURCES)
	@mkdir -p build && rm -f build/.extensions-* && touch build/.began
	@if $(PY) -c 'import setuptools' 2>/dev/null; then \
		$(PY) setup.py --quiet build_ext --inplace; \
	elif [ $(EMBERMQ_COMPILE) = require ]; then echo 'EmberMQ: setuptools is missing' >&2; exit 1; fi
	@mv build/.began $@  # as old as its beginning: what is edited meanwhile is built next time

.PHONY: install
install: $(EXTENSIONS)  ## set up .venv and install EmberMQ there: .venv/bin/embermq
	@echo "EmberMQ is installed at $(VENV)/bin/embermq, $$($(PY) -m embermq.build | sed -n 1p)."

.PHONY: run
run: install  ## start a broker: AMQP on 5672, HTTP on 15672, data in ./data
	exec $(VENV)/bin/embermq serve $(SERVE)

$(VENV)/.dev: $(VENV)/.linked
	$(LINK) '.[test,dev,bench]' </dev/null
	@touch $@

.PHONY: test-needs
test-needs: $(VENV)/.dev $(NODE_DIR)/node_modules/.stamp
	@tools/system-packages.sh amqp-publish=amqp-tools chromium=chromium fish=fish java=openjdk-17-jre-headless \
		pg_ctlcluster=postgresql promtool=prometheus rabbitmq-server=rabbitmq-server zsh=zsh \
		|| echo 'EmberMQ: tests that need the packages above will be skipped' >&2

# Node and npm come from PyPI where the system has none: Debian's npm is 366 packages.
$(NODE_DIR)/node_modules/.stamp: $(wildcard $(NODE_DIR)/package*.json) | $(VENV)/.dev
	@cd $(NODE_DIR) && PATH="$$PATH:$(abspath $(VENV))/bin" npm ci --no-audit --no-fund --loglevel=error </dev/null >&2
	@touch $@

# ---------------------------------------------------------------- checking

.PHONY: test
test: lint test-compiled test-interpreted  ## everything: lint, then all tests, compiled and interpreted

.PHONY: test-compiled
test-compiled: test-needs  ## the tests against the compiled modules
	@$(MAKE) install EMBERMQ_COMPILE=require
	tools/run-tests.sh compiled $(PY) $(T)

.PHONY: test-interpreted
test-interpreted: test-needs  ## the tests against the same sources, interpreted
	tools/run-tests.sh interpreted $(PY) $(T)

.PHONY: soak
CYCLES ?= 300
CONNECTIONS ?= 5000
soak: test-needs  ## kill brokers for a long time (CYCLES=300), then a crowd of clients (CONNECTIONS=5000)
	@$(MAKE) install EMBERMQ_COMPILE=require
	tools/soak.sh $(PY) $(CYCLES) $(CONNECTIONS) $(T)

.PHONY: differ
PROGRAMS ?= 500
SEED ?= 1
differ: test-needs  ## random programs against EmberMQ and RabbitMQ, every answer compared (PROGRAMS=500 SEED=1)
	@$(MAKE) install EMBERMQ_COMPILE=require
	tools/system-packages.sh rabbitmq-server=rabbitmq-server
	$(PY) -m tools.differ --programs $(PROGRAMS) --seed $(SEED) $(D)

.PHONY: foreign-suites
foreign-suites: test-needs  ## other people's tests against EmberMQ and RabbitMQ (S="pika bunny", as root)
	@$(MAKE) install EMBERMQ_COMPILE=require
	tools/system-packages.sh rabbitmq-server=rabbitmq-server
	$(PY) -m tools.foreign_suites $(S)

.PHONY: lint
lint: $(VENV)/.dev $(NODE_DIR)/node_modules/.stamp  ## ruff, mypy --strict, tsc on the console, links between pages, and whether generated code is up to date
	$(PY) -m ruff check --quiet .
	$(PY) -m ruff format --check --quiet .
	$(PY) -m mypy
	PATH="$$PATH:$(abspath $(VENV))/bin" $(NODE_DIR)/node_modules/.bin/tsc -p src/embermq/http/console
	$(PY) tools/generate_wire.py --check
	$(PY) -m tools.conformance_report --check
	$(SITE)

.PHONY: format
F ?= .
format: $(VENV)/.dev  ## let ruff fix and format (F="src/embermq/wire" for a part)
	$(PY) -m ruff check --fix $(F)
	$(PY) -m ruff format $(F)

.PHONY: wire
wire: $(VENV)/.linked  ## generate the protocol classes from src/embermq/wire/amqp.toml
	$(PY) tools/generate_wire.py

.PHONY: docs
SITE := NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
docs: $(VENV)/.dev  ## build the documentation into build/site, and docs/conformance.md from the last results
	$(PY) -m tools.conformance_report
	$(SITE)

.PHONY: bench
bench: $(VENV)/.dev  ## measure against RabbitMQ (installs Debian's rabbitmq-server)
	@$(MAKE) install EMBERMQ_COMPILE=require
	tools/system-packages.sh rabbitmq-server=rabbitmq-server
	$(PY) -m bench $(B)

.PHONY: dist
# The wheels are made from the source distribution, so that it is complete and nothing stale gets in.
WHEEL := $(PY) -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation \
	--wheel-dir dist
dist: $(VENV)/.linked  ## build into dist/: a source distribution, a compiled wheel, and an interpreted one for any machine
	rm -rf dist
	EMBERMQ_COMPILE=off $(PY) setup.py --quiet sdist
	EMBERMQ_COMPILE=require $(WHEEL) dist/*.tar.gz
	EMBERMQ_COMPILE=off $(WHEEL) dist/*.tar.gz
	@ls -l dist

.PHONY: clean
clean:  ## remove everything that was built (keeps .venv and data)
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
