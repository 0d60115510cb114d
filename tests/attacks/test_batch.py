"""Attacks as one batch, hostile exhibits, and control groups."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import suite
from batch import CASES, grade_batch
from honeypot import SECRET, Honeypot, laid_out
from PIL import Image

from autograder.judging import exhibits
from autograder.judging.judge import Judge
from autograder.sandboxes import cgroups

# ---- A small batch of attackers and honest students; `python -m benchmarks attack-batch` runs the full one. ----------

CHOSEN = [
    "cheating/displayhook",
    "cheating/sibling_memory",
    "cheating/raw_socket_exchange",
    "crashing/module_replaced_by_none",
    "crashing/stack_overflow",
    "hanging/threads_outlive",
    "malformed/json_bomb",
    "malformed/link_to_the_solution",
    "tampering/html_in_errors",
    "tampering/kill_everything",
]


@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
@pytest.mark.slow
def test_a_batch_is_graded_as_each_submission_is_alone(tmp_path):
    attacks = [case for case in CASES if case.name in CHOSEN]
    assert len(attacks) == len(CHOSEN)
    found = grade_batch(tmp_path, attacks, num_honest=2, seed=602)
    assert found.is_clean, found


# ---- Hostile code cells graded by the instructor: they can show only text and small PNGs, and a sentence says the
# rest.

ATTACKS = {name: (marks, code) for name, marks, code in suite.cells("exhibits")}


@pytest.fixture(scope="module")
def pot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Honeypot]:
    with laid_out(tmp_path_factory.mktemp("exhibits") / "honeypot") as one:
        yield one
    assert one.is_untouched


@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.slow
def test_it_shows_text_and_small_pictures(name: str, judge: Judge, pot: Honeypot, tmp_path: Path, monkeypatch):
    marks, code = ATTACKS[name]
    monkeypatch.setattr(exhibits, "TIMEOUT", float(marks.get("timeout", exhibits.TIMEOUT)))
    source = suite.with_places(code, pot.places)
    shown = exhibits.show(judge, {"preamble": suite.PREAMBLE, "cells": [["week01.plot", source, True]]})
    said = shown.text + shown.note
    assert "was not run" not in shown.note and SECRET not in said and "\x1b" not in said
    assert marks["sentence"] == "-" or marks["sentence"] in said, said
    assert len(shown.text) <= exhibits.MOST_TEXT
    _pictures_are_small_and_real(shown)
    exhibits.write({"week01.plot": shown}, tmp_path / "e.json")
    assert (tmp_path / "e.json").stat().st_size < exhibits.MOST_FILE_BYTES
    for output in exhibits.outputs(shown, source):
        assert output.output_type == "stream" or list(output.data) == ["image/png"]
    assert suite.left_behind(judge, pot.folder) == []
    assert suite.honest_answer(judge) is None


def _pictures_are_small_and_real(shown: exhibits.Exhibit) -> None:
    assert len(shown.pictures) <= exhibits.MOST_PICTURES
    for png in shown.pictures:
        assert len(png) <= exhibits.MOST_PNG_BYTES and b"script" not in png
        with Image.open(io.BytesIO(png)) as picture:
            picture.load()
            assert picture.format == "PNG" and max(picture.size) <= exhibits.MOST_SIDE and not picture.info


# ---- Control groups are created only where we may create them, and are removed; folders stand in for Linux's. --------


def version_1(tmp_path: Path, path: str) -> tuple[Path, Path]:
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    for controller in ("pids", "memory", "freezer"):
        (mounts / controller / path.lstrip("/")).mkdir(parents=True)
    own.write_text(f"3:pids:{path}\n2:memory:{path}\n1:freezer:{path}\n")
    return mounts, own


def test_at_the_top_of_version_1_each_controller_has_a_folder(tmp_path: Path):
    group = cgroups.ControlGroup(*version_1(tmp_path, "/"))
    assert sorted(folder.parent.name for folder in group.folders) == ["memory", "pids"]
    assert all(str(folder) in " ".join(group.wrapper()) for folder in group.folders)
    group.close()
    assert not any(folder.exists() for folder in group.folders)


def test_the_group_of_a_manager_is_left_alone_unless_told_otherwise(tmp_path: Path, monkeypatch):
    places = version_1(tmp_path, "/manager/of-containers")
    group = cgroups.ControlGroup(*places)
    assert group.folders == [] and group.wrapper() == []
    monkeypatch.setenv("CONTROL_GROUPS", "nested")
    nested = cgroups.ControlGroup(*places)
    assert {folder.parent.name for folder in nested.folders} == {"of-containers"}
    nested.close()


def test_version_2_takes_the_controllers_that_are_passed_on(tmp_path: Path, monkeypatch):
    (tmp_path / "own").write_text("0::/delegated\n")
    parent = tmp_path / "mounts" / "delegated"
    parent.mkdir(parents=True)
    (parent / "cgroup.controllers").write_text("cpu io memory pids")
    (parent / "cgroup.subtree_control").write_text("memory pids")
    monkeypatch.setattr(Path, "write_text", _only_inside(Path.write_text))
    monkeypatch.setenv("CONTROL_GROUPS", "nested")
    group = cgroups.ControlGroup(tmp_path / "mounts", tmp_path / "own")
    assert [folder.parent for folder in group.folders] == [parent]
    group.close()


def _only_inside(write):
    """Make kernel files keep their meaning when +memory is written to them."""

    def write_text(path: Path, text: str) -> int:
        return 0 if path.name == "cgroup.subtree_control" else write(path, text)

    return write_text


def test_the_group_of_a_program_that_was_killed_is_swept_up(tmp_path: Path):
    mounts, own = version_1(tmp_path, "/")
    dead = mounts / "pids" / f"{cgroups.PREFIX}99999999-abcd"
    dead.mkdir()
    cgroups.ControlGroup(mounts, own).close()
    assert not dead.exists()
