"""Downloads of Canvas and Moodle are collected completely, hostile ones are harmless, every file gets a sentence."""

import io
import json
import stat
import zipfile
from datetime import UTC, datetime

import pytest
from nbgrader.utils import parse_utc
from typer.testing import CliRunner

from autograder import demo
from autograder.cli import app
from autograder.grading import grade
from autograder.lms.collect import collect, sender_of
from autograder.reading import ingest
from autograder.reading.ingest import read_collected
from autograder.reading.names import folder_name

WEEK = demo.WEEK
DUE = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    return demo.write_submission(tmp_path_factory.mktemp("one"), "ada", {}).read_bytes()


def zip_of(path, files):
    """Write a zip file dated after the due date, given (name or ZipInfo, bytes) pairs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, (2026, 11, 22, 9, 0, 0))
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def by_file(lines):
    return {line.file: line for line in lines}


@pytest.mark.parametrize(
    ("path", "lms", "id", "name", "late", "file"),
    [
        ("doejane_12345_67890_week01.ipynb", "canvas", "12345", "doejane", False, "week01.ipynb"),
        ("doejane_LATE_12345_67890_week01-1.ipynb", "canvas", "12345", "doejane", True, "week01-1.ipynb"),
        ("de_la_cruz_7_8_a_1_2.ipynb", "canvas", "7", "de_la_cruz", False, "a_1_2.ipynb"),
        ("anon_Xy7Ab_67890_week01.ipynb", "canvas", "anon_Xy7Ab", "", False, "week01.ipynb"),
        ("LATE_anon_Xy7Ab_67890_week01.ipynb", "canvas", "anon_Xy7Ab", "", True, "week01.ipynb"),
        ("王小明_3_4_week01.ipynb", "canvas", "3", "王小明", False, "week01.ipynb"),
        ("Jane Doe_12345_assignsubmission_file_/week01.ipynb", "moodle", "12345", "Jane Doe", False, "week01.ipynb"),
        ("Jane Doe_12345_assignsubmission_file_week01.ipynb", "moodle", "12345", "Jane Doe", False, "week01.ipynb"),
        ("Jane Doe_12345_assignsubmission_file_/sub/w.ipynb", "moodle", "12345", "Jane Doe", False, "sub/w.ipynb"),
    ],
)
def test_file_names_of_both(path, lms, id, name, late, file):
    sender = sender_of(path)
    assert sender is not None
    assert (sender.lms, sender.id, sender.name, sender.late, sender.file) == (lms, id, name, late, file)


def test_a_name_that_is_neither():
    assert sender_of("week01.ipynb") is None and sender_of("notes/readme.txt") is None


def test_folder_names_are_plain():
    names = [folder_name(name) for name in ("Jane Doe", "../../etc", "=cmd()", "王小明", "-rf", "")]
    assert names == ["Jane-Doe", "etc", "cmd", "王小明", "rf", "nameless"]


def test_a_canvas_download(tmp_path, notebook):
    path = zip_of(
        tmp_path / "w.zip",
        [
            ("doejane_11_101_week01.ipynb", b"{}"),
            ("doejane_11_102_week01-1.ipynb", notebook),
            ("doejane_11_103_plot.png", b"png"),
            ("liwei_LATE_12_104_week01.ipynb", notebook),
            ("roebob_13_105_answer.zip", b"PK"),
            ("readme.txt", b"hello"),
        ],
    )
    target = tmp_path / "submitted"
    lines = by_file(collect(path, WEEK, target, due=DUE))
    assert set(lines) == {
        "doejane_11_101_week01.ipynb",
        "doejane_11_102_week01-1.ipynb",
        "doejane_11_103_plot.png",
        "liwei_LATE_12_104_week01.ipynb",
        "roebob_13_105_answer.zip",
        "readme.txt",
    }
    assert grade.students_in(target, WEEK) == ["doejane-11", "liwei-12"]
    assert (target / "doejane-11" / WEEK / f"{WEEK}.ipynb").read_bytes() == notebook
    assert "Another notebook counts" in lines["doejane_11_101_week01.ipynb"].sentence
    assert "not a notebook" in lines["doejane_11_103_plot.png"].sentence
    assert "No notebook of roebob-13" in lines["roebob_13_105_answer.zip"].sentence
    assert "the sender is unknown" in lines["readme.txt"].sentence
    assert ingest.read_submission("doejane-11", WEEK, target).found
    times = {name: (target / name / WEEK / "timestamp.txt").read_text() for name in ("doejane-11", "liwei-12")}
    assert times == {"doejane-11": "2026-11-20 16:00:00 UTC\n", "liwei-12": "2026-11-20 16:00:01 UTC\n"}
    assert parse_utc(times["doejane-11"].strip()) == DUE.replace(tzinfo=None)
    facts = read_collected(target / "liwei-12" / WEEK)
    assert facts is not None and facts["id"] == "12" and facts["late"]


def test_nothing_is_overwritten_without_replace(tmp_path, notebook):
    target, name = tmp_path / "submitted", "doejane_11_101_week01.ipynb"
    first, second = (zip_of(tmp_path / f"{n}.zip", [(name, notebook + b"\n" * n)]) for n in range(2))
    kept = target / "doejane-11" / WEEK / f"{WEEK}.ipynb"
    assert [line.outcome for line in collect(first, WEEK, target)] == ["collected"]
    assert [line.outcome for line in collect(first, WEEK, target)] == ["unchanged"]
    (line,) = collect(second, WEEK, target)
    assert line.outcome == "kept" and "--replace" in line.sentence and kept.read_bytes() == notebook
    assert [line.outcome for line in collect(second, WEEK, target, replace=True)] == ["replaced"]
    assert kept.read_bytes() == notebook + b"\n"


def test_a_student_whose_name_changed_keeps_the_folder(tmp_path, notebook):
    target = tmp_path / "submitted"
    (target / "doejane-11" / "week00_start").mkdir(parents=True)
    collect(zip_of(tmp_path / "w.zip", [("roejane_11_101_week01.ipynb", notebook)]), WEEK, target)
    assert [path.name for path in target.iterdir()] == ["doejane-11"]


def test_a_moodle_download_with_namesakes(tmp_path, notebook):
    path = zip_of(
        tmp_path / "w.zip",
        [
            ("Jane Doe_1_assignsubmission_file_/week01.ipynb", notebook),
            ("Li Wei_2_assignsubmission_file_/week01.ipynb", notebook),
            ("Li Wei_3_assignsubmission_file_/week01.ipynb", notebook),
            ("Li Wei_3_assignsubmission_onlinetext_/onlinetext.html", b"<p>"),
        ],
    )
    target = tmp_path / "submitted"
    lines = by_file(collect(path, WEEK, target))
    assert sorted(path.name for path in target.iterdir()) == ["Jane-Doe", "Li-Wei-2", "Li-Wei-3"]
    assert "not a notebook" in lines["Li Wei_3_assignsubmission_onlinetext_/onlinetext.html"].sentence
    other = zip_of(tmp_path / "x.zip", [("Jane Doe_9_assignsubmission_file_/week01.ipynb", notebook)])
    assert collect(other, WEEK, target)[0].student == "Jane-Doe-9"
    alone = zip_of(tmp_path / "y.zip", [("Li Wei_8_assignsubmission_file_/week00.ipynb", notebook)])
    assert "Li-Wei-2, Li-Wei-3" in collect(alone, "week00_start", target)[0].sentence


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def test_a_hostile_download_writes_nothing_outside_and_loses_nobody(tmp_path, notebook):
    bomb = b"\0" * 50_000_000
    path = zip_of(
        tmp_path / "w.zip",
        [
            ("../../evil_1_2_week01.ipynb", notebook),
            ("/tmp/evil_2_2_week01.ipynb", notebook),
            ("..\\evil_3_2_week01.ipynb", notebook),
            ("../evil_4_assignsubmission_file_/week01.ipynb", notebook),
            (link("mallory_5_6_week01.ipynb"), b"/etc/passwd"),
            ("bomb_6_7_week01.ipynb", bomb),
            ("ada_7_8_week01.ipynb", notebook),
            ("ju\x1b[2Jnk_8_9_week01.ipynb", notebook),
        ],
    )
    target = tmp_path / "in" / "submitted"
    lines = collect(path, WEEK, target)
    assert [line.file for line in lines if line.outcome == "collected"] == ["ada_7_8_week01.ipynb"]
    assert len({line.file for line in lines}) == 8 and all(line.sentence for line in lines if line.student != "ada-7")
    written = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file())
    own = f"in/submitted/ada-7/{WEEK}"
    assert written == [f"{own}/collected.json", f"{own}/timestamp.txt", f"{own}/{WEEK}.ipynb", "w.zip"]


def test_a_size_that_lies_a_broken_sum_a_password_and_an_odd_method(tmp_path, notebook):
    path = tmp_path / "w.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, name in enumerate(("liar", "broken", "locked"), start=1):
            archive.writestr(f"{name}_{number}_1_week01.ipynb", b"\0" * 20_000_000 if name == "liar" else notebook)
        archive.writestr("odd_4_1_week01.ipynb", notebook, zipfile.ZIP_BZIP2)
        for info in archive.infolist():  # the sizes that the central directory will claim
            if info.filename.startswith("liar"):
                info.file_size = 1000
            elif info.filename.startswith("broken"):
                info.CRC ^= 1
            elif info.filename.startswith("locked"):
                info.flag_bits |= 1
    lines = collect(path, WEEK, tmp_path / "submitted")
    words = {line.student: line.sentence for line in lines}
    assert {line.outcome for line in lines} == {"left out"} and not (tmp_path / "submitted").exists()
    assert "damaged" in words["liar-1"] and "damaged" in words["broken-2"]


def test_one_name_twice(tmp_path, notebook):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zip_of(tmp_path / "w.zip", [("ada_7_8_week01.ipynb", b"{}"), ("ada_7_8_week01.ipynb", notebook)])
    lines = collect(path, WEEK, tmp_path / "submitted")
    assert any("2 files of this name" in line.sentence for line in lines)
    assert (tmp_path / "submitted" / "ada-7" / WEEK / f"{WEEK}.ipynb").read_bytes() == notebook


def test_a_link_in_submitted_is_not_written_through(tmp_path, notebook):
    target, elsewhere = tmp_path / "submitted", tmp_path / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "ada-7").symlink_to(elsewhere)
    (line,) = collect(zip_of(tmp_path / "w.zip", [("ada_7_8_week01.ipynb", notebook)]), WEEK, target)
    assert "symbolic link" in line.sentence and not any(elsewhere.iterdir())


def test_a_broken_notebook_is_collected_and_said_so(tmp_path):
    (line,) = collect(zip_of(tmp_path / "w.zip", [("ada_7_8_week01.ipynb", b"{")]), WEEK, tmp_path / "submitted")
    assert line.outcome == "collected" and "cannot be read" in line.sentence


def test_the_command(tmp_path, notebook):
    path = zip_of(tmp_path / "w.zip", [("ada_LATE_7_8_week01.ipynb", notebook), ("x.txt", b"")])
    options = ["--week", "week01", "--submitted", str(tmp_path / "s"), "--due", "2026-11-20T16:00+00:00"]
    answer = CliRunner().invoke(app, ["collect", str(path), *options])
    assert answer.exit_code == 0 and "1 collected" in answer.output and "Due 2026-11-20 16:00 UTC" in answer.output
    assert json.loads((tmp_path / "s" / "ada-7" / WEEK / "collected.json").read_text())["lms"] == "canvas"
    (tmp_path / "no.zip").write_bytes(io.BytesIO(b"nothing").getvalue())
    wrong = CliRunner().invoke(app, ["collect", str(tmp_path / "no.zip"), *options])
    assert wrong.exit_code == 2 and "cannot be opened as a zip file" in wrong.output
