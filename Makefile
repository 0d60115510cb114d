# SYS-602: every command of the project, with one line of help each (`make help`).
PYTHON ?= python3
PORT ?= 8888
LAB_IP ?= 127.0.0.1
AT ?= work
GPU ?=
QUICK ?=
SITE_URL ?=
DOCKER ?= docker
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
CHOSEN := $(if $(WEEK),-k $(firstword $(subst _, ,$(WEEK)))) $(if $(FAST),--cases 1 -m "not slow and not browser",$(if $(WEEK)$(WHOLE),,--cases 2))
WEEK ?= week01_collectives
JOBS ?= $(if $(FAST),4,3)
SUBMITTED ?= autograder/submitted
# GPU=1 installs a newer torch than the CPU pin: NCCL 2.30 and several ranks on one GPU need torch >= 2.14.1.
TORCH := $(if $(GPU),torch>=2.14.1,torch==2.13.0)
# The CPU build of torch comes from here if your own package index has none. TORCH_INDEX= keeps to your own.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
READY := $(VENV)/.setup-done$(if $(GPU),-gpu)
READY_DEV := $(READY)-dev
INSTALL = "$(BIN)/python" install.py --torch '$(TORCH)' $(if $(GPU),--gpu,--torch-index '$(TORCH_INDEX)')
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' --constraints constraints.txt --no-emit-package torch pyproject.toml
LAB_FLAGS := --ip=$(LAB_IP) --port=$(PORT) $(if $(HEADLESS),--no-browser) $(if $(filter 0,$(shell id -u)),--allow-root)
# Learners work in a separate folder, which updates never overwrite. course/.jupyter switches the formgrader off for
# them. Teachers open the whole course with AT=.
LEARNER := $(filter work,$(AT))
STUDENT := $(if $(LEARNER),JUPYTER_CONFIG_PATH="$(CURDIR)/course/.jupyter")
OLD_PYTHON := Python 3.11 or newer is needed. If yours has another name: make PYTHON=python3.12 ...

export PATH := $(BIN):$(PATH)

.PHONY: help setup setup-dev lab test check style notebooks grade own-solutions kill-matrix forged-matrix stability demo bench validate \
	figures site lock docker clean
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml requirements.lock
	@test -w . || { echo "This folder cannot be written to: copy the course to your home folder."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(OLD_PYTHON)")'
	@test -x $(VENV)/bin/pip || $(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL)
	@rm -f $(VENV)/.setup-done*
	@touch $@
	@"$(BIN)/shardlab" doctor || true

$(READY_DEV): $(READY) requirements-dev.lock
	@$(INSTALL) --extra dev
	@touch $@

setup: $(READY)  ## create .venv with what a student needs, at the pinned versions (GPU=1: a torch with NCCL 2.30)

setup-dev: $(READY_DEV)  ## add what tests, `make check`, `make bench` and lab 2 need; they do it themselves

lab: setup  ## check the machine and open JupyterLab in work/, your own folder (HEADLESS=1, PORT=8888, GPU=1, AT=. for teachers)
	@"$(BIN)/shardlab" doctor --brief || true
	$(if $(LEARNER),@"$(BIN)/shardlab" study --folder "$(AT)" begin)
	cd "$(AT)" && $(STUDENT) exec "$(BIN)/jupyter" lab $(if $(LEARNER),--LabApp.default_url=/lab/tree/start.ipynb) $(LAB_FLAGS)

test: setup-dev $(if $(FAST),style,check)  ## style, types, and a fixed sample of the tests (WHOLE=1: all cases; FAST=1: three minutes, no types; WEEK=week03; JOBS=3)
	"$(BIN)/python" -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		--reruns 1 --rerun-show-tracebacks --durations=20 --durations-min=1 $(CHOSEN)

check: style  ## style, and pyright, which reads the pages' imports of `mine` from build/own
	"$(BIN)/autograder" own-source build/own
	"$(BIN)/pyright"

style: setup-dev  ## ruff, hadolint, and whether course/ is what solutions/ builds
	"$(BIN)/ruff" check . && "$(BIN)/ruff" format --check .
	"$(BIN)/hadolint" Dockerfile
	"$(BIN)/autograder" build --check

notebooks: setup  ## build the students' notebooks in course/ from solutions/
	"$(BIN)/autograder" build

grade: setup  ## grade WEEK=week01_collectives from SUBMITTED=autograder/submitted
	"$(BIN)/autograder" grade $(WEEK) --submitted $(SUBMITTED)

kill-matrix: setup  ## run every known wrong answer against its check, and count those that fail the visible one
	"$(BIN)/autograder" kill-matrix

forged-matrix: setup  ## every wrong answer with every forgery: hours; keeps its rows in build/, and resumes (WEEKS="week02 week03")
	"$(BIN)/autograder" forged-matrix $(WEEKS)

stability: setup  ## every known answer under many seeds: hours; keeps its rows in build/, and resumes (WEEKS="week02 week03")
	"$(BIN)/autograder" stability $(WEEKS)

own-solutions: setup  ## grade the course's own solutions with three seeds: they must get every automatic point
	"$(BIN)/autograder" own-solutions

demo: setup  ## one minute: real ranks, prediction next to measurement, an honest and a cheating submission graded
	"$(BIN)/autograder" demo

validate: setup  ## the cost model's error on published runs and on one server's, compared with a constant
	"$(BIN)/python" -m shardlab.costs.validation
	"$(BIN)/python" -m benchmarks.single_server

bench: setup-dev  ## measurements next to other implementations, as a table; it says how long it takes (QUICK=1: within ten minutes)
	"$(BIN)/python" -m benchmarks $(if $(QUICK),quick)

figures: setup  ## draw the figures of docs/images again
	"$(BIN)/python" -m shardlab.figures

site: setup  ## write the course as offline pages to build/site: weeks with outputs, docs, search (SITE_URL=: to publish it)
	"$(BIN)/autograder" site $(if $(SITE_URL),--url "$(SITE_URL)")

lock:  ## renew the versions and hashes of both lock files from constraints.txt (needs uv)
	@command -v uv >/dev/null || { echo "uv is needed: pip install uv"; exit 1; }
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --output-file requirements-dev.lock --extra dev \
		$$(sed -nE 's/^([a-z0-9.-]+)==.*/--no-emit-package \1/p' requirements.lock)

docker:  ## build the image sys602 (DOCKER=podman; BASE=, TORCH_INDEX= as in the Dockerfile)
	$(DOCKER) build -t sys602 $(if $(BASE),--build-arg BASE='$(BASE)') --build-arg TORCH_INDEX='$(TORCH_INDEX)' .

clean:  ## remove generated files (the gradebook and the rows of long tables stay)
	find build -mindepth 1 -maxdepth 1 -not -name '*.jsonl' -exec rm -rf {} + 2>/dev/null || true
	rm -rf .pytest_cache .ruff_cache autograder/autograded autograder/feedback
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
