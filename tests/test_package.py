"""The package: what is installed, at which versions, and how it is used."""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from itertools import chain
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import install
from autograder.authoring import notebooks

# ---- A wheel of the course is the whole course: pages are created and checked without a repository around it. --------

ROOT = Path(__file__).parents[1]
NEEDED = ("labs", "autograder", "course", "pyproject.toml", "setup.py", "README.md", "LICENSE")
WEEK = "week01_collectives"
BEGIN = "from shardlab.commands.cli import app; app(['study', 'begin'])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the files that a wheel of the course installs."""
    copy, wheels, site = (tmp_path_factory.mktemp(name) for name in ("copy", "wheels", "site"))
    for name in NEEDED:
        one = ROOT / name
        if one.is_dir():
            shutil.copytree(one, copy / name, ignore=shutil.ignore_patterns("__pycache__", "submitted", "verdicts"))
        else:
            shutil.copy(one, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", wheels, copy]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = wheels.glob("sys602-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_exercise_is_laid_out_answered_and_checked(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    laid_out = subprocess.run(
        [sys.executable, "-c", BEGIN], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"created {len(notebooks.weeks())} pages" in " ".join(laid_out.stdout.split()), laid_out.stderr

    page = nbformat.read(tmp_path / "work" / WEEK / f"{WEEK}.ipynb", 4)
    solved = {cell.id: cell.source for cell in notebooks.read_source(WEEK).cells}
    page.cells = page.cells[: 1 + [cell.id for cell in page.cells].index("week01-exchange-check")]
    for cell in page.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solved[cell.id]
    page.cells.append(nbformat.v4.new_code_cell("import autograder, shardlab\nautograder.__file__, shardlab.__file__"))
    resources = {"metadata": {"path": str(tmp_path / "work" / WEEK)}}
    NotebookClient(page, timeout=120, kernel_name="python3", resources=resources).execute(env=dict(os.environ))
    *_, checked, where = page.cells
    assert "2 of 2 points" in checked.outputs[0].data["text/plain"]
    assert where.outputs[0]["data"]["text/plain"].count(str(installed)) == 2


# ---- What `make setup` installs: install.py and the two lists of packages, a student's and a developer's. ------------

INDEX = "https://example.org/cpu"


class Recorder:
    """An installer that records its arguments, and succeeds from the `succeeds_at`-th call on."""

    def __init__(self, succeeds_at: int):
        self.succeeds_at = succeeds_at
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str, may_fail: bool = False) -> bool:
        assert may_fail
        self.calls.append(arguments)
        return len(self.calls) >= self.succeeds_at


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(install, "installed_version", lambda name: "")
    monkeypatch.setattr(sys, "platform", "linux")


OWN = ("--no-deps", "torch==2.13.0+cpu")
FROM_INDEX = (*OWN, "--index-url", INDEX)


@pytest.mark.parametrize(
    ("succeeds_at", "index", "expected"),
    [(1, INDEX, [OWN]), (2, INDEX, [OWN, FROM_INDEX]), (3, INDEX, [OWN, FROM_INDEX]), (2, "", [OWN])],
    ids=["own", "index", "neither", "no-index"],
)
def test_your_own_index_is_asked_for_a_cpu_build_first(without_torch, succeeds_at, index, expected):
    recorder = Recorder(succeeds_at)
    install.install_cpu_torch(recorder, "torch==2.13.0", index)
    assert recorder.calls == expected


def test_an_installed_torch_of_that_version_stays(without_torch, monkeypatch):
    monkeypatch.setattr(install, "installed_version", lambda name: "2.13.0")
    recorder = Recorder(1)
    install.install_cpu_torch(recorder, "torch==2.13.0", INDEX)
    assert recorder.calls == []


def test_macos_has_one_build_only(without_torch, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    recorder = Recorder(1)
    install.install_cpu_torch(recorder, "torch==2.13.0", INDEX)
    assert recorder.calls == []


def test_a_version_is_read_without_its_build():
    assert install.installed_version("torch") == metadata.version("torch").split("+")[0]
    assert install.installed_version("no-such-package") == ""


def record(calls, works):
    def installer(*arguments, may_fail=False):
        calls.append(arguments)
        return works or may_fail

    return installer


@pytest.mark.parametrize("gpu", [True, False])
def test_torch_comes_last_and_a_gpu_build_as_it_is(without_torch, gpu):
    calls, wanted = [], "torch>=2.14.1" if gpu else "torch==2.13.0"
    options = argparse.Namespace(gpu=gpu, torch=wanted, torch_index=INDEX)
    assert install.install_torch(record(calls, works=True), options)
    assert calls == ([] if gpu else [OWN]) + [(wanted,)]


@pytest.mark.parametrize(("extra", "num_files"), [(None, 1), ("dev", 2)])
def test_the_lock_files_are_installed_with_their_hashes_only(extra, num_files):
    calls = []
    assert install.install_locked(record(calls, works=True), extra)
    assert calls[0][:2] == ("--require-hashes", "--no-deps") and calls[0].count("-r") == num_files
    assert all((ROOT / name).is_file() for name in calls[0][3::2])


@pytest.fixture
def locked_wheel(tmp_path, monkeypatch):
    """A folder with a lock file, the wheel of the one small package in it, and an environment to install it into."""
    wheel = tmp_path / "sys602_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sys602_tiny.py", "")
        archive.writestr(
            "sys602_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sys602-tiny\nVersion: 1.0\n"
        )
        archive.writestr(
            "sys602_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("sys602_tiny-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "requirements.lock").write_text(f"sys602-tiny==1.0 \\\n    --hash=sha256:{digest}\n")
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(tmp_path))
    venv.create(tmp_path / "environment", with_pip=False)
    monkeypatch.setenv("PIP_TARGET", str(next(tmp_path.glob("environment/lib/*/site-packages"))))
    return tmp_path


def installed_install(folder: Path) -> bool:
    return bool([*folder.glob("environment/lib/*/site-packages/sys602_tiny.py")])


INSTALLERS = [
    install.pip_install,
    pytest.param(install.uv_install, marks=pytest.mark.skipif(not shutil.which("uv"), reason="uv is not installed")),
]


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize("tampered", ["lock", "wheel", "no hash", None])
def test_a_tampered_package_is_not_installed(locked_wheel, installer, tampered, capfd, monkeypatch):
    if installer is install.uv_install:
        monkeypatch.setattr(sys, "executable", str(locked_wheel / "environment/bin/python"))
    lock = locked_wheel / "requirements.lock"
    if tampered == "wheel":
        with zipfile.ZipFile(locked_wheel / "sys602_tiny-1.0-py3-none-any.whl", "a") as archive:
            archive.writestr("sys602_tiny/worse.py", "")
    elif tampered:
        lock.write_text(
            lock.read_text().partition(":")[0] + ":" + "0" * 64 if tampered == "lock" else "sys602-tiny==1.0"
        )
    assert (
        install.install_locked(installer, folder=locked_wheel) == installed_install(locked_wheel) == (tampered is None)
    )
    printed = capfd.readouterr()
    assert ("a downloaded file is not the\n  one that the course was tested with" in printed.out) == bool(tampered)
    assert not tampered or re.search("hash", printed.err, re.IGNORECASE)


@pytest.mark.parametrize(
    ("line", "summary"),
    [
        ("  Downloading torch-2.13.0+cpu.whl (183.2 MB)", "torch-2.13.0+cpu.whl (183.2 MB)"),
        ("Downloading https://example.org/a/numpy-2.4.6.whl (18.0 MB)", "numpy-2.4.6.whl (18.0 MB)"),
        ("  Downloading six-1.17.0.whl (11 kB)", None),
        ("Collecting numpy", None),
        ("Installing collected packages: torch", "installing torch"),
        ("Installing collected packages: a, b, c", "installing 3 packages"),
    ],
)
def test_large_downloads_and_the_installation_are_shown(line, summary):
    assert install.summarize(line) == summary


def test_progress_is_shown_while_pip_still_runs(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    pip = tmp_path / "python"
    pip.write_text(
        "#!/bin/sh\necho 'Downloading numpy-2.4.6.whl (18.0 MB)'\n"
        f"for _ in $(seq 100); do [ -e {seen} ] && exit 0; sleep 0.1; done; exit 1\n"
    )
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    monkeypatch.setattr(install, "summarize", lambda line: seen.touch())
    assert install.pip_install("numpy")


@pytest.mark.parametrize(("name", "expected"), [("FIND_LINKS", True), ("TIMEOUT", False)])
def test_uv_is_not_used_where_pip_has_its_own_package_sources(monkeypatch, name, expected):
    for variable in [variable for variable in install.os.environ if variable.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", install.os.devnull)
    monkeypatch.setenv(f"PIP_{name}", "9")
    assert install.pip_has_sources() == expected


def commands_of(*target: str) -> str:
    make = ["make", "--dry-run", "--always-make", *target]
    return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["lab", "demo", "grade", "notebooks", "kill-matrix", "site", "figures"])
def test_students_and_teachers_do_without_the_tests_packages(target):
    assert "install.py" in commands_of(target) and "--extra dev" not in commands_of(target)


@pytest.mark.parametrize("target", ["test", "check", "style", "bench"])
def test_developers_get_them_without_asking(target):
    assert commands_of(target, "FAST=1").count("--extra dev") == 1


def test_a_gpu_needs_no_index_of_cpu_builds():
    assert "--gpu" in commands_of("lab", "GPU=1") and "--torch-index" not in commands_of("lab", "GPU=1")
    assert "--torch-index ''" in commands_of("lab", "TORCH_INDEX=")


@pytest.mark.parametrize(("known", "calls"), [(True, 2), (False, 1)], ids=["found", "unknown"])
def test_uv_tries_quietly_before_it_installs(tmp_path, monkeypatch, capfd, known, calls):
    log = tmp_path / "log"
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$*" >> {log}\necho some-output\nexit {0 if known else 1}\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert install.uv_install("torch", may_fail=True) == known
    assert len(log.read_text().splitlines()) == calls and "--dry-run" in log.read_text().splitlines()[0]
    assert capfd.readouterr().out == "some-output\n" * known


# ---- One set of versions: constraints.txt, the lock files, environment.yml, Dockerfile and Makefile agree. -----------

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
