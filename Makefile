# Two commands do everything: `make demo` and `make test`. Both create what they need in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BUILD := build/demo
JOBS ?= auto

# Every process of the tests computes with one thread; idle ones take tests from busy ones.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
  $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

.PHONY: demo demo-detector models check test lint format bench docs site clean help

help:
	@echo "make demo    compile the digits model for the Edge TPU and run it on the simulated chip"
	@echo "make demo-detector  the same for a detector: from float32 to boxes in pictures"
	@echo "make models  check the digits model against examples/ci/digits.toml"
	@echo "make check   lint and the quick tests, for use while you work"
	@echo "make test    run the tests on all cores (JOBS=1 for one; PYTEST_ARGS=... is passed on)"
	@echo "make lint    style, format, types, layers"
	@echo "make format  format the code"
	@echo "make bench   run the benchmarks and write benchmarks/results"
	@echo "make docs    regenerate the generated pages of docs/"
	@echo "make site    build the documentation site in build/site"
	@echo "make clean   remove .venv and build"

# One stamp per set of packages, renewed when the requirements change.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "FitzRoy needs Python 3.11 or later; $(PYTHON) is older or missing."; \
	  echo "Install one (Debian 12 and later: apt-get install python3 python3-venv),"; \
	  echo "or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot create virtual environments."; \
	  echo "Install its venv module (Debian: apt-get install python3-venv)."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[images]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,examples,litert,onnx]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[executorch,litert,images]'
	@touch $@

$(VENV)/.site: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

demo: $(VENV)/.demo
	@mkdir -p $(BUILD)
	$(BIN)/fitzroy compile examples/models/digits.tflite --show-operations \
	  -o $(BUILD)/digits_edgetpu.tflite
	@for image in examples/images/*.png; do \
	  $(BIN)/fitzroy sim $(BUILD)/digits_edgetpu.tflite --input "$$image" --functional --quiet \
	    --labels examples/models/digits_labels.txt --top 1 || exit 1; \
	done
	$(BIN)/fitzroy sim $(BUILD)/digits_edgetpu.tflite --input examples/images/digit_4_1.png \
	  --labels examples/models/digits_labels.txt --report $(BUILD)/digits.html
	$(BIN)/fitzroy compile examples/models/digits.tflite --target xnnpack -o $(BUILD)/digits.pte
	$(BIN)/fitzroy run $(BUILD)/digits.pte --input examples/images/digit_4_1.png \
	  --labels examples/models/digits_labels.txt --top 1

demo-detector: $(VENV)/.demo
	@mkdir -p $(BUILD)
	$(BIN)/fitzroy compile examples/detector/detector.tflite --detections --calibrate \
	  examples/detector/calibration -o $(BUILD)/detector_edgetpu.tflite
	@for image in examples/detector/scenes/*.png; do \
	  $(BIN)/fitzroy run $(BUILD)/detector_edgetpu.tflite --device sim:direct --input "$$image" \
	    --labels examples/detector/labels.txt --draw $(BUILD)/$$(basename "$$image") || exit 1; \
	done

models: $(VENV)/.demo
	@mkdir -p build
	$(BIN)/fitzroy test examples/ci/digits.toml --junit build/models.xml

test: $(VENV)/.test
	$(PYTEST) $(PYTEST_ARGS)

check: lint
	$(PYTEST) -m 'not long and not runtime' $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.test
	$(BIN)/python -m docs.generate

# The variable silences an advertisement of the theme's. Strictness needs to see warnings, which
# --quiet would drop.
site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build
