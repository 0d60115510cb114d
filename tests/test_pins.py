"""One set of versions: constraints.txt, the lock files, environment.yml, Dockerfile and Makefile agree."""

import re
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
PINS = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in LINES}
LOCKS = ["requirements.lock", "requirements-dev.lock"]
LOCKED = r"^(?P<requirement>\S+==\S+(?: ; [^\\\n]+)?)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"


def read(name):
    return (ROOT / name).read_text()


def locked(name):
    """The requirements of a lock file."""
    return [Requirement(found["requirement"]) for found in re.finditer(LOCKED, read(name), re.MULTILINE)]


def packages_on(version, system):
    """Names of the locked packages that are installed there."""
    there = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": system,
        "os_name": "posix",
    }
    wanted = [requirement for name in LOCKS for requirement in locked(name)]
    return {canonicalize_name(one.name) for one in wanted if not one.marker or one.marker.evaluate(there)}


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


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_requirements_with_hashes_and_no_host(name):
    assert re.fullmatch("#.*", re.sub(LOCKED, "", read(name), flags=re.MULTILINE).strip().replace("\n", " "))
    assert "//" not in read(name) and "index-url" not in read(name)


def test_the_locks_hold_each_pin_that_is_installed_once():
    names = [canonicalize_name(one.name) for name in LOCKS for one in locked(name)]
    assert len(set(names)) == len(names)
    for one in [one for name in LOCKS for one in locked(name)]:
        elsewhere = one.marker and not one.marker.evaluate({"sys_platform": "linux", "os_name": "posix"})
        pin = PINS.get(canonicalize_name(one.name))
        assert str(one.specifier) == f"=={pin}" or (elsewhere and not pin), one


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_covers_what_pyproject_names(lock):
    wanted = PROJECT["optional-dependencies"]["dev"] if "dev" in lock else PROJECT["dependencies"]
    names = {canonicalize_name(one.name) for one in locked(lock)} | {"torch"}
    assert {canonicalize_name(Requirement(text).name) for text in wanted} <= names


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_locks_need_no_other_package(version):
    there = packages_on(version, "linux") | {"torch"}
    environment = {"python_version": version, "python_full_version": f"{version}.0", "extra": ""}
    for name in there:
        try:
            needs = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:
            continue  # for another Python
        missing = [str(one) for one in needs if not one.marker or one.marker.evaluate(environment)]
        missing = [text for text in missing if canonicalize_name(Requirement(text).name) not in there]
        assert not missing or name == "torch", f"{name} needs {missing}"


def test_the_locks_are_made_for_the_pinned_torch():
    (torch,) = tomllib.loads(read("pyproject.toml"))["tool"]["uv"]["dependency-metadata"]
    assert (torch["name"], torch["version"]) == ("torch", PINS["torch"])
    needs = [Requirement(text) for text in metadata.requires("torch")]
    anywhere = {str(one) for one in needs if not one.marker}
    assert metadata.version("torch").split("+")[0] != PINS["torch"] or anywhere == set(torch["requires-dist"])


def test_conda_brings_python_and_constraints_bring_the_rest():
    environment = yaml.safe_load(read("environment.yml"))
    python, _, packages = environment["dependencies"]
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert packages["pip"] == ["--constraint constraints.txt", "--editable ."]
    (image,) = re.findall(r"ARG BASE=python:(\d+\.\d+)-slim", read("Dockerfile"))
    assert python == f"python={image}"


def test_the_image_installs_with_the_pins_and_has_no_root():
    dockerfile = read("Dockerfile")
    installs = re.findall(r"pip install[^\n]*", dockerfile)
    assert len(installs) == 5 and all(re.search("-c constraints.txt|--require-hashes", line) for line in installs)
    assert re.findall(r"^USER (.*)", dockerfile, re.MULTILINE) == ["1000"] and "HEALTHCHECK" in dockerfile


def test_an_image_holds_nothing_that_git_does_not_know():
    left_out = set(read(".dockerignore").splitlines())
    for line in read(".gitignore").splitlines():
        if line and not line.startswith("#"):
            assert {line.rstrip("/"), f"**/{line.rstrip('/')}"} & left_out, line
