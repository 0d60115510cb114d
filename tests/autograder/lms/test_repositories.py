"""Notebooks are read from students' repositories, and nothing else in a repository has any effect."""

import os
import socket
import subprocess

import psutil
import pytest
from typer.testing import CliRunner

from autograder import demo
from autograder.cli import app
from autograder.lms import repositories
from autograder.reading.ingest import read_collected
from autograder.reading.notebook_file import MAX_BYTES

WEEK = demo.WEEK
NAME = f"{WEEK}.ipynb"
CLASSROOM = (
    "assignment_name,assignment_url,starter_code_url,github_username,roster_identifier,student_repository_name,"
    "student_repository_url,submission_timestamp,points_awarded,points_available"
)
WHO = {
    "GIT_AUTHOR_NAME": "ada",
    "GIT_AUTHOR_EMAIL": "ada@localhost",
    "GIT_COMMITTER_NAME": "ada",
    "GIT_COMMITTER_EMAIL": "ada@localhost",
    "GIT_COMMITTER_DATE": "2026-11-20T15:00:00+00:00",
}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    return demo.write_submission(tmp_path_factory.mktemp("one"), "ada", {}).read_bytes()


def git(folder, *words, when=None):
    environment = os.environ | WHO | ({"GIT_COMMITTER_DATE": when} if when else {})
    subprocess.run(["git", "-C", str(folder), *words], env=environment, check=True, capture_output=True)


def repository(folder, files, *, links=(), when=None):
    """Make a repository with one commit of these files, {path: bytes}, and links, (path, target)."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for path, target in links:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=week 1", when=when)
    return folder


def table_of(path, rows, header="student,repository"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def collect_one(tmp_path, files, **kinds):
    """Collect from one student whose repository has these files; return the report line."""
    place = repository(tmp_path / "ada.git", files, **kinds)
    return repositories.collect(table_of(tmp_path / "r.csv", [f"ada,{place}"]), WEEK, tmp_path / "submitted")[0]


def test_a_notebook_is_collected_byte_by_byte_with_its_time(tmp_path, notebook):
    line = collect_one(tmp_path, {f"{WEEK}/{NAME}": notebook, "notes.txt": b"x"})
    folder = tmp_path / "submitted" / "ada" / WEEK
    assert line.outcome == "collected" and "2026-11-20 15:00 UTC" in line.sentence
    assert (folder / NAME).read_bytes() == notebook
    assert (folder / "timestamp.txt").read_text() == "2026-11-20 15:00:00 UTC\n"
    collected = read_collected(folder)
    assert collected is not None and (collected["lms"], collected["file"]) == ("git", f"{WEEK}/{NAME}")


def test_a_commit_from_the_future_is_of_now(tmp_path, notebook):
    line = collect_one(tmp_path, {NAME: notebook}, when="2090-01-01T00:00:00+00:00")
    assert line.outcome == "collected" and "2090" not in line.sentence


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ({f"course/{WEEK}/{NAME}": b"given", f"work/{WEEK}/{NAME}": b"mine"}, b"mine"),
        ({f"course/{WEEK}/{NAME}": b"mine"}, b"mine"),
        ({"week01.ipynb": b"old", NAME: b"mine"}, b"mine"),
        ({f"a/{NAME}": b"mine", f"b/{NAME}": b"mine"}, b"mine"),
        ({"周一/week01_collectives (1).ipynb": b"mine"}, b"mine"),
    ],
)
def test_which_notebook_counts(tmp_path, files, chosen):
    assert collect_one(tmp_path, files).outcome == "collected"
    assert (tmp_path / "submitted" / "ada" / WEEK / NAME).read_bytes() == chosen


def test_what_cannot_be_collected_gets_a_sentence(tmp_path):
    assert "has no file" in collect_one(tmp_path / "none", {"week02_ddp.ipynb": b"{}"}).sentence
    assert "none was chosen" in collect_one(tmp_path / "two", {f"a/{NAME}": b"1", f"b/{NAME}": b"2"}).sentence
    assert "clear the outputs" in collect_one(tmp_path / "large", {NAME: b"x" * (MAX_BYTES + 1)}).sentence
    assert "has no file" in collect_one(tmp_path / "link", {"a": b"1"}, links=[(NAME, "/etc/passwd")]).sentence
    assert not list(tmp_path.glob("*/submitted"))


def test_nothing_of_a_repository_is_run(tmp_path, notebook):
    """Filters, hooks and URLs that name a program have no effect."""
    mark = tmp_path / "was_run"
    place = repository(tmp_path / "ada.git", {NAME: notebook, ".gitattributes": b"*.ipynb filter=evil\n"})
    git(place, "config", "filter.evil.smudge", f"touch {mark}")
    for hook in ("post-checkout", "post-receive", "post-upload-pack"):
        (place / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (place / ".git" / "hooks" / hook).chmod(0o755)
    rows = [f"ada,{place}", f"bob,ext::touch {mark}", f"cy,--upload-pack=touch {mark}"]
    lines = repositories.collect(table_of(tmp_path / "r.csv", rows), WEEK, tmp_path / "submitted")
    assert {line.student: line.outcome for line in lines} == {"ada": "collected", "bob": "left out", "cy": "left out"}
    assert not mark.exists()


def test_a_branch_a_second_time_and_another_version(tmp_path, notebook):
    place = repository(tmp_path / "ada.git", {NAME: b"{}"})
    git(place, "checkout", "--quiet", "-b", "week01")
    (place / NAME).write_bytes(notebook)
    git(place, "commit", "--quiet", "--all", "--message=answers")
    git(place, "checkout", "--quiet", "main")
    table = table_of(tmp_path / "r.csv", [f"ada,{place},week01"], header="student,repository,branch")
    submitted = tmp_path / "submitted"
    assert [repositories.collect(table, WEEK, submitted)[0].outcome for _ in range(2)] == ["collected", "unchanged"]
    assert (submitted / "ada" / WEEK / NAME).read_bytes() == notebook
    plain = table_of(tmp_path / "plain.csv", [f"ada,{place}"])
    assert repositories.collect(plain, WEEK, submitted)[0].outcome == "kept"
    assert repositories.collect(plain, WEEK, submitted, replace=True)[0].outcome == "replaced"


def test_the_table_of_github_classroom(tmp_path, notebook):
    place = repository(tmp_path / "ada.git", {NAME: notebook})
    rows = [
        f"w,u,s,ada-l,Lovelace Ada,w-ada,{place},2026,0,17",
        f"w,u,s,bob-b,,w-bob,{tmp_path}/nowhere,2026,0,17",
        f"w,u,s,ada-2,Lovelace-Ada,w-ada,{place},2026,0,17",
        "w,u,s,cy,Cy,,,2026,0,17",
    ]
    lines = repositories.collect(table_of(tmp_path / "r.csv", rows, header=CLASSROOM), WEEK, tmp_path / "submitted")
    said = {(line.student, line.outcome): line.sentence for line in lines}
    assert ("Lovelace-Ada", "collected") in said and "the first row counts" in said["Lovelace-Ada", "left out"]
    assert "git could not read it" in said["bob-b", "left out"] and "none yet" in said["Cy", "left out"]


def test_the_command_says_what_a_table_needs(tmp_path):
    table = table_of(tmp_path / "r.csv", ["ada,x"], header="who,where")
    result = CliRunner().invoke(app, ["collect", str(table), "--week", "week01", "--submitted", str(tmp_path / "s")])
    assert result.exit_code == 2 and "needs the columns student and, for git, repository" in result.output


def test_git_that_does_not_answer_is_ended_with_its_helpers(tmp_path):
    """A server accepts the connection and says nothing: git waits in a child process."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/ada.git"
        table = table_of(tmp_path / "r.csv", [f"ada,{address}"])
        line = repositories.collect(table, WEEK, tmp_path / "submitted", seconds=2)[0]
        assert "did not answer within 2 s" in line.sentence
        commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
        assert [command for command in commands if address in command] == []
