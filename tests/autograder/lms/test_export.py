"""Exports for Canvas and Moodle: points, manual grades and late penalties of the students they know; anonymous ids."""

import csv
import json
import os
import warnings
from datetime import datetime

import pytest
from nbgrader.api import Gradebook
from sqlalchemy.exc import SAWarning
from typer.testing import CliRunner

from autograder import demo
from autograder.authoring import notebooks
from autograder.authoring.course import load_config, nbgrader_programs
from autograder.cli import app
from autograder.grading import grade
from autograder.lms.anonymous import anonymous_id, mapping, read_key
from autograder.lms.export import export, write
from autograder.lms.points import Score, due_date, scores
from tests.autograder.tiny_course import TINY_WEEK, make_tiny_course

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,week00_start (7),week01_tiny (8),Final Score
,,,,,Manual Posting,Manual Posting,
    Points Possible,,,,,1,7,(read only)
"Doe, Jane",11,s11,jane,A,1,,90
"Li, Wei",12,s12,wei,A,1,3,80
"Roe, Bob",13,s13,bob@uni.example,A,,,
"""
MOODLE = """\
Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Last modified (grade)","Feedback comments"
"Participant 11","Jane Doe",jane@uni.example,Submitted,,7.00,-,
"Participant 12","Li Wei",wei@uni.example,Submitted,2.00,7.00,-,fine
"Participant 13","Bob Roe",bob@uni.example,No,,7.00,-,
"""


def table(text, path):
    path.write_text(text, encoding="utf-8-sig")
    return path


def verdict(points, fault=False, submitted=True):
    exercise = {"points": points, "max": 5.0, "text": "", "fault": fault}
    return {"submitted": submitted, "exercises": {"week01.double": exercise}}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """jane and wei are in the gradebook; bob is only judged, cy's machine failed, dee submitted nothing."""
    root = make_tiny_course(tmp_path_factory.mktemp("course"))
    with (
        nbgrader_programs(),
        Gradebook(load_config(root).CourseDirectory.db_url) as gradebook,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", SAWarning)  # raised by nbgrader's own queries
        gradebook.add_assignment(TINY_WEEK, duedate=datetime(2026, 11, 20, 16))
        gradebook.add_notebook(TINY_WEEK, TINY_WEEK)
        for name, most in (("week01-double-check", 3), ("week01-triple-check", 2), ("week01-interview", 2)):
            gradebook.add_grade_cell(name, TINY_WEEK, TINY_WEEK, max_score=most, cell_type="code")
        for name, auto, manual, penalty in (("jane", 3.0, 1.5, 0), ("wei", 2.0, None, 0.5)):
            gradebook.update_or_create_student(name)
            submission = gradebook.add_submission(TINY_WEEK, name)
            submission.notebooks[0].late_submission_penalty = penalty
            for grade in submission.notebooks[0].grades:
                grade.needs_manual_grade = grade.name == "week01-interview" and manual is None
                if grade.name == "week01-double-check":
                    grade.auto_score = auto
                elif grade.name == "week01-interview":
                    grade.manual_score = manual
                else:
                    grade.auto_score = 0
        gradebook.db.commit()
    for name, content in (
        ("bob", verdict(4.0)),
        ("cy", verdict(0, fault=True)),
        ("dee", verdict(0, submitted=False)),
        ("jane", verdict(3.0)),
    ):
        folder = root / "autograder" / "verdicts" / name
        folder.mkdir(parents=True)
        (folder / f"{TINY_WEEK}.json").write_text(json.dumps(content))
    (root / "autograder" / "verdicts" / "eve").mkdir()
    (root / "autograder" / "verdicts" / "eve" / f"{TINY_WEEK}.json").write_text("[]")
    return root


def test_points_come_from_the_gradebook_else_from_verdicts(course):
    found, notes = scores(TINY_WEEK, "canvas", course / "autograder" / "submitted", course)
    assert {one.student: one.points for one in found} == {"jane": 4.5, "wei": 1.5, "bob": 4.0}
    text = " ".join(notes)
    assert "late penalties: bob." in text and "without a grade count as 0: wei" in text
    assert "grade again: cy" in text and "nothing was submitted: dee" in text


def test_the_number_of_another_lms_names_nobody(course, tmp_path):
    folder = tmp_path / "jane" / TINY_WEEK
    folder.mkdir(parents=True)
    facts = {"lms": "canvas", "id": "12", "name": "jane", "late": False, "file": "f", "sha256": "0"}
    (folder / "collected.json").write_text(json.dumps(facts))
    ids = [scores(TINY_WEEK, lms, tmp_path, course)[0][1].lms_id for lms in ("canvas", "moodle")]
    assert ids == ["12", ""]


def test_the_due_date_is_the_gradebooks(course, tmp_path):
    due = due_date(TINY_WEEK, course)
    assert due is not None and due.isoformat() == "2026-11-20T16:00:00+00:00"
    empty = make_tiny_course(tmp_path)
    assert due_date(TINY_WEEK, empty) is None and not (empty / "autograder" / "gradebook.db").exists()
    with pytest.raises(ValueError, match="run `autograder grade week01_tiny` first"):
        scores(TINY_WEEK, "canvas", tmp_path, empty)


CLASS = [Score("jane", 4.5, 7.0), Score("liwei-12", 1.5, 7.0, "12")]


def test_canvas_gets_its_five_columns_and_one_more(tmp_path):
    made = export("canvas", TINY_WEEK, CLASS, table(CANVAS, tmp_path / "c.csv"))
    write(made, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week01_tiny (8)"]
    assert [row[5] for row in rows[2:]] == ["7", "4.5", "1.5", ""] and rows[3][0] == "Doe, Jane"
    assert "2 of 3" in made.notes[0]


def test_a_new_canvas_column_carries_the_points_possible(tmp_path):
    text = "\n".join(",".join(line.split(",")[:5]) for line in CANVAS.replace(", ", "_").splitlines())
    made = export("canvas", TINY_WEEK, CLASS, table(text, tmp_path / "c.csv"))
    assert made.rows[0][5] == TINY_WEEK and made.rows[1][5] == "7" and "no column" in made.notes[1]


def test_moodle_keeps_its_worksheet(tmp_path):
    made = export("moodle", TINY_WEEK, [Score("Jane-Doe", 4.456, 7.0, "11"), Score("Bob-Roe", 0.0, 7.0)],
                  table(MOODLE, tmp_path / "m.csv"))  # fmt: skip
    assert [row[4] for row in made.rows] == ["Grade", "4.46", "2.00", "0"]
    assert made.rows[2][-1] == "fine" and len(made.rows[0]) == 8


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ([*CLASS, Score("zoe", 1.0, 7.0)], {}, "zoe has no row"),
        ([Score("jane", 1.0, 7.0), Score("doe-11", 2.0, 7.0, "11")], {}, "the same row as another"),
        ([Score("Doe-Jane", 1.0, 7.0, "99")], {}, "Doe-Jane has no row"),
        ([Score("jane", 1.0, 19.0)], {}, "at most 7 points and the course 19"),
        (CLASS, {"column": "Week 1"}, "no column is called 'Week 1'"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(tmp_path, scores, options, words):
    with pytest.raises(ValueError, match=words):
        export("canvas", TINY_WEEK, scores, table(CANVAS, tmp_path / "c.csv"), **options)


def test_scale_converts(tmp_path):
    made = export("canvas", TINY_WEEK, [Score("jane", 7.0, 14.0)], table(CANVAS, tmp_path / "c.csv"), scale=True)
    assert made.rows[3][5] == "3.5"


def test_without_a_template_only_collected_students_can_be_named():
    canvas = export("canvas", TINY_WEEK, CLASS[1:])
    assert canvas.rows[2] == ["liwei-12", "12", "", "", "", "1.5"]
    assert export("moodle", TINY_WEEK, CLASS[1:]).rows[1][:3] == ["Participant 12", "liwei-12", "1.5"]
    with pytest.raises(ValueError, match="not known for jane"):
        export("canvas", TINY_WEEK, CLASS)


def test_a_table_in_another_language_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no column Identifier, Grade"):
        export("moodle", TINY_WEEK, CLASS, table("Kennung,Bewertung\n1,2\n", tmp_path / "m.csv"))


def test_the_command_never_writes_over_the_template(course, tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "ROOT", course)
    monkeypatch.setattr(notebooks, "find_week", lambda week: TINY_WEEK)
    template = table(CANVAS.replace("bob@uni.example", "bob"), tmp_path / "c.csv")
    options = ["--week", "week01", "--lms", "canvas", "--template", str(template)]
    refused = CliRunner().invoke(app, ["export", str(template), *options])
    assert refused.exit_code == 2 and "is the template" in refused.output
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "out.csv"), *options])
    assert answer.exit_code == 0 and "3 of 3 students" in answer.output and "late penalties: bob" in answer.output
    assert "jane,A,4.5" in (tmp_path / "out.csv").read_text()


def test_a_key_is_made_once_and_read_by_its_owner_alone(tmp_path):
    path = tmp_path / "key"
    key = read_key(path)
    assert len(key) == 32 and path.stat().st_mode & 0o777 == 0o600 and read_key(path) == key
    os.chmod(path, 0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        read_key(path)


@pytest.mark.parametrize("content", ["", "abcd", "not hexadecimal"])
def test_another_file_is_no_key(tmp_path, content):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(content)
    with pytest.raises(ValueError, match="is not a key file"):
        read_key(path)


def test_a_link_is_no_key(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is not a key file"):
        read_key(tmp_path / "link")


def test_ids_depend_on_student_and_key():
    assert anonymous_id("ada", b"a" * 32) == anonymous_id("ada", b"a" * 32) != anonymous_id("ada", b"b" * 32)
    assert len(set(mapping([f"s{n}" for n in range(500)], b"a" * 32).values())) == 500


def test_the_command_copies_a_week_and_leads_back(tmp_path):
    submitted, key = tmp_path / "submitted", tmp_path / "key"
    path = demo.write_submission(submitted, "ada", {})
    (path.parent / "timestamp.txt").write_text("2026-11-20 16:00:00 UTC")
    options = ["--submitted", str(submitted), "--key", str(key)]
    copied = CliRunner().invoke(app, ["anonymise", *options, "--week", "week01", "--to", str(tmp_path / "blind")])
    (name,) = grade.students_in(tmp_path / "blind", demo.WEEK)
    assert copied.exit_code == 0 and copied.output == f"{name}  ada\n"
    assert (tmp_path / "blind" / name / demo.WEEK / path.name).read_bytes() == path.read_bytes()
    assert (tmp_path / "blind" / name / demo.WEEK / "timestamp.txt").exists()
    back = CliRunner().invoke(app, ["anonymise", name, *options])
    assert back.output == f"{name}  ada\n" and key.read_text() not in copied.output + back.output
    unknown = CliRunner().invoke(app, ["anonymise", "anon-zzzzzzzzzz", *options])
    assert unknown.exit_code == 2 and "no student of" in unknown.output
