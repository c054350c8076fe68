# Two commands on a fresh machine with Python 3.11 or newer, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SEEDS ?= 20
JOBS ?= 2
TESTS ?= tests

.PHONY: demo test test-fast test-lowest test-newest check docs device-check install clean

demo: $(VENV)/.installed  ## 20 seeds of self-paced PPO on the 3-D point mass, with pictures
	$(BIN)/spjax train point-mass-3d --agent ppo --teacher self-paced --seeds $(SEEDS)

test: $(VENV)/.installed check  ## formatting, types and the whole suite
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 30 --durations-min 5

test-fast: $(VENV)/.installed  ## the tests that take a second or so each
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-lowest: $(VENV)-lowest/.installed  ## the same with the lowest versions that pyproject.toml allows, in .venv-lowest
	$(VENV)-lowest/bin/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(TESTS)

test-newest: $(VENV)-newest/.installed  ## and with the newest ones, whatever constraints.txt says, in .venv-newest
	$(VENV)-newest/bin/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(TESTS)

check: $(VENV)/.installed  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy spjax

docs: $(VENV)/.installed  ## the documentation, strictly, into docs/_build
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build

device-check:  ## a short measurement on an accelerator: one JSON with device, steps/s and solves/s
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m benchmarks.device_check; else $(PYTHON) -m benchmarks.device_check; fi

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('spjax needs Python 3.11 or newer, this is ' + sys.version.split()[0]) if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)-lowest/.installed: RESOLUTION = lowest-direct
$(VENV)-newest/.installed: RESOLUTION = highest
$(VENV)-%/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --quiet --upgrade --resolution $(RESOLUTION) --python $(@D)/bin/python -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest build .cache docs/_build
