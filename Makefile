# make run      the sandbox, in the foreground; Ctrl-C stops it
# make test     the tests
# make check    everything that has to pass before a merge: style, types, layers, tests
# make screenshots  pictures of the portal's pages, in build/screenshots
# make bench    the benchmark
# make format   writes the sources the way `make check` wants them
# make lock     pins the dependencies again after a change of pyproject.toml; ARGS=--upgrade takes the newest
# make clean    removes what the other targets made in this directory; a sandbox's data stay
#
# Each sets up what it needs in .venv first, which takes no time when nothing has changed.
# ARGS goes on to the command: make run ARGS="--api-port 9090", make test ARGS="tests/unit -x".
# PYTHON names the interpreter to make .venv with, when the one that is found is not the one you want.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help run test check screenshots bench format lock clean

ARGS ?=
PYTHON ?=

venv := .venv/bin/python
# Ready for one directory only: an environment does not survive a move.
place := $(shell pwd -P | cksum | cut -d ' ' -f 1)
server := .venv/server-$(place)
dev := .venv/dev-$(place)

help:
	@sed -n 's/^# \{0,1\}//p; /^$$/q' Makefile

run: $(server)
	@exec .venv/bin/payaccept sandbox $(ARGS)

# In two processes, for most tests wait; but to xdist tests of one name are one test, and schemathesis makes such.
generated := tests/api/test_schemathesis.py
ifeq ($(strip $(ARGS)),)
test: $(dev)
	@$(venv) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore $(generated)
	@$(venv) -m pytest $(generated)
else
test: $(dev)
	@$(venv) -m pytest $(ARGS)
endif

check: $(dev)
	$(venv) -m ruff check
	$(venv) -m ruff format --check
	$(venv) -m mypy
	.venv/bin/lint-imports
	@$(MAKE) --no-print-directory test

screenshots: $(dev)
	@PYTHONPATH=tests $(venv) tools/screenshots.py $(ARGS)

bench: $(server)
	@$(venv) -m bench $(ARGS)

format: $(dev)
	$(venv) -m ruff check --fix-only
	$(venv) -m ruff format

$(server): constraints/server.txt pyproject.toml tools/set-up.sh $(venv)
	@sh tools/set-up.sh constraints/server.txt "$(PYTHON)"
	@touch $@

$(dev): constraints/dev.txt pyproject.toml tools/set-up.sh $(venv)
	@sh tools/set-up.sh constraints/dev.txt "$(PYTHON)"
	@touch $@ $(server)

# Missing also when it points to a Python that was removed; then the environment is made anew.
$(venv): ;

# No index address gets into the files: each machine takes the packages from where it is configured to.
compile := .venv/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
	--no-emit-build-options --custom-compile-command "make lock" $(ARGS) pyproject.toml constraints/setup.in

lock: $(dev)
	$(compile) --extra server --output-file constraints/server.txt
	$(compile) --extra server --extra dev --constraints constraints/server.txt --output-file constraints/dev.txt

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
