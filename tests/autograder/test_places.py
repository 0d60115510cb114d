"""What a sandbox shows of this machine, wherever Python, its packages and the course lie."""

import os
import site
import sys
from pathlib import Path

import pytest

from autograder.jobs import places
from autograder.sandboxes import surroundings


def test_of_paths_that_contain_each_other_the_outermost_is_shown():
    paths = ["/usr", "/usr", "/opt/x/lib", "/opt/x", "/opt/x-y", "/usr/local/bin", "/usrlocal"]
    assert places.outermost(paths) == ["/opt/x", "/opt/x-y", "/usr", "/usrlocal"]


def test_below_a_covered_folder_what_is_needed_is_shown_again():
    paths = ["/usr", "/usr/src/course/labs/shardlab", "/usr/src/course/labs/shardlab/meter", "/usr/lib/python3"]
    assert places.outermost(paths, ["/usr/src/course"]) == ["/usr", "/usr/src/course/labs/shardlab"]


@pytest.mark.parametrize("prefix", ["/", "/usr"])
def test_the_systems_own_python_is_shown_once(monkeypatch, prefix):
    """Run as /bin/python3, some builds call / their prefix."""
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, prefix)
    monkeypatch.setattr(places, "packages", list)
    monkeypatch.setattr(os, "__file__", "/usr/lib/python3.11/os.py")
    assert set(surroundings.mounts()) <= {"/usr", "/etc/ld.so.cache", *places.ours()}


def test_of_a_prefix_that_is_a_home_folder_only_pythons_parts_are_shown(monkeypatch, tmp_path):
    for part in ("bin", "lib", ".ssh"):
        (tmp_path / part).mkdir()
    (tmp_path / "gradebook.db").touch()
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    assert {path for path in places.wanted() if path.startswith(str(tmp_path))} == {
        f"{tmp_path}/bin",
        f"{tmp_path}/lib",
    }


def test_packages_are_shown_wherever_pip_put_them(monkeypatch, tmp_path):
    (tmp_path / "of_a_user" / "numpy-2.0.dist-info").mkdir(parents=True)
    (tmp_path / "homework").mkdir()
    (tmp_path / "link").symlink_to("of_a_user")
    monkeypatch.setattr(sys, "path", ["", "relative", str(tmp_path / "homework"), str(tmp_path / "link"), *sys.path])
    folder = str(tmp_path / "of_a_user")
    assert folder in surroundings.mounts() and str(tmp_path / "homework") not in surroundings.mounts()
    paths = surroundings.environment()["PYTHONPATH"].split(":")
    assert folder in paths and not set(map(os.path.realpath, site.getsitepackages())) & set(paths)


def test_no_path_is_shown_by_the_name_of_a_link():
    """A tree under two names could be masked under one alone."""
    assert [path for path in surroundings.mounts() if os.path.realpath(path) != path] == []


@pytest.mark.parametrize("where", ["course", "autograder"])
def test_a_course_below_what_is_shown_is_covered(monkeypatch, tmp_path, where):
    """A checkout in /usr/src, or an autograder that pip has installed beside its checks."""
    jobs = tmp_path / "autograder" / "jobs"
    jobs.mkdir(parents=True)
    if where == "course":
        (tmp_path / "nbgrader_config.py").touch()
    monkeypatch.setattr(surroundings, "__file__", str(tmp_path / "autograder" / "sandboxes" / "surroundings.py"))
    monkeypatch.setattr(places, "ours", lambda: [str(jobs)])
    monkeypatch.setattr(places, "packages", lambda: [str(tmp_path.parent)])
    found = {path: shown for path, shown in surroundings.mounts().items() if path.startswith(str(tmp_path.parent))}
    covered = str(tmp_path if where == "course" else tmp_path / "autograder")
    assert found == {str(tmp_path.parent): True, covered: False, str(jobs): True}


def test_links_are_followed_as_linux_does(tmp_path):
    real = tmp_path / "python-3.11.7" / "bin"
    real.mkdir(parents=True)
    (real / "python3.11").touch()
    (real / "python3").symlink_to("python3.11")
    (tmp_path / "python").symlink_to("python-3.11.7")
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "alternatives" / "python3").symlink_to("../python/bin/python3")
    (tmp_path / "chosen").symlink_to(tmp_path / "alternatives" / "python3")
    assert places.links_on(str(tmp_path / "chosen")) == {
        f"{tmp_path}/chosen": f"{tmp_path}/alternatives/python3",
        f"{tmp_path}/alternatives/python3": "../python/bin/python3",
        f"{tmp_path}/python": "python-3.11.7",
        f"{real}/python3": "python3.11",
    }
    (tmp_path / "round").symlink_to("round")
    assert places.links_on(str(tmp_path / "round")) == {f"{tmp_path}/round": "round"}


def test_a_link_to_this_python_is_made_again_unless_it_is_shown(monkeypatch):
    links = {"/etc/alternatives/python3": "/usr/bin/python3.11", "/usr/bin/python3": "/etc/alternatives/python3"}
    monkeypatch.setattr(places, "links", lambda: links | {"/bin": "usr/bin"})
    others = {link: to for link, to in surroundings.links().items() if Path(link).parent != Path("/")}
    assert others == {"/etc/alternatives/python3": "/usr/bin/python3.11"}
