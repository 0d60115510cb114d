"""Anonymous ids are stable, depend on a key that only its owner can read, and can be mapped back."""

import os

import pytest
from typer.testing import CliRunner

from autograder import demo
from autograder.cli import app
from autograder.grading import grade
from autograder.lms.anonymous import anonymous_id, mapping, read_key


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
