# Every target works on a bare machine: it makes .venv by itself when that is missing.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup browser demo test check test-slow bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/headway demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# The page's tests need a browser; without one they are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq --no-install-recommends chromium; } >/dev/null 2>&1 \
	|| echo "no Chromium: tests of the page will be skipped (apt install chromium)"

test: check browser
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadgroup

test-slow: setup
	$(BIN)/python -m pytest -m slow -rs

bench: setup
	$(BIN)/python -m bench

docs: setup
	$(BIN)/python docs/build.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache build dist
