"""One set of versions: constraints.txt, environment.yml, Dockerfile and Makefile agree."""

import re
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
PINS = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in LINES}


def read(name):
    return (ROOT / name).read_text()


def test_every_line_is_an_exact_pin_and_none_is_there_twice():
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in LINES)
    assert len(PINS) == len(LINES)


def test_every_dependency_is_pinned_within_its_range():
    for text in [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(PINS[canonicalize_name(wanted.name)]), text


def test_the_pins_install_on_the_oldest_python_that_we_name():
    assert PROJECT["requires-python"] == ">=3.11"
    for name, version in PINS.items():
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another system, or pinned manually
        if found.version.split("+")[0] == version and (wanted := found.metadata.get("Requires-Python")):
            assert SpecifierSet(wanted).contains("3.11.0"), f"{name}=={version} needs Python {wanted}"


def test_the_makefile_installs_the_pinned_torch():
    assert f"torch=={PINS['torch']})" in read("Makefile")


def test_the_makefile_and_the_image_name_one_index_of_cpu_builds():
    (index,) = re.findall(r"^ARG TORCH_INDEX=(.*)", read("Dockerfile"), re.MULTILINE)
    assert f"\nTORCH_INDEX ?= {index}\n" in read("Makefile")


def test_conda_brings_python_and_constraints_bring_the_rest():
    environment = yaml.safe_load(read("environment.yml"))
    python, _, packages = environment["dependencies"]
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert packages["pip"] == ["--constraint constraints.txt", "--editable ."]
    (image,) = re.findall(r"ARG BASE=python:(\d+\.\d+)-slim", read("Dockerfile"))
    assert python == f"python={image}"


def test_the_image_installs_with_the_constraints_and_has_no_root():
    dockerfile = read("Dockerfile")
    installs = re.findall(r"pip install[^\n]*", dockerfile)
    assert len(installs) == 4 and all("-c constraints.txt" in line for line in installs)
    assert re.findall(r"^USER (.*)", dockerfile, re.MULTILINE) == ["1000"] and "HEALTHCHECK" in dockerfile


def test_an_image_holds_nothing_that_git_does_not_know():
    left_out = set(read(".dockerignore").splitlines())
    for line in read(".gitignore").splitlines():
        if line and not line.startswith("#"):
            assert {line.rstrip("/"), f"**/{line.rstrip('/')}"} & left_out, line
