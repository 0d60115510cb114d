"""nbgrader's exchange: no folder can be replaced, and only plain files of the named student are collected."""

import os
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autograder import doctor
from autograder.cli import app
from autograder.grading.roster import Roster, Student
from autograder.lms import exchange, inbound
from autograder.lms.from_exchange import Collection, collect
from autograder.reading.ingest import read_collected

WEEK, COURSE = "week01_tiny", "sys602"
ME = os.geteuid()
SECRET = "0123456789abcdef" * 8
NOW = "2026-11-20 10:00:00.000000 UTC"


@pytest.fixture
def root(tmp_path) -> Path:
    place = tmp_path / "exchange"
    assert exchange.make(place, COURSE, ME) and exchange.problems(place, COURSE, ME) == []
    return place


def hand_in(root: Path, name="ada", *, stamp=NOW, text="{}", secret=SECRET, tag="x", file=f"{WEEK}.ipynb") -> Path:
    """Write a submission as nbgrader's submit does."""
    folder = root / COURSE / "inbound" / f"{name}+{WEEK}+{stamp}+{tag}"
    folder.mkdir()
    (folder / file).write_text(text)
    (folder / "timestamp.txt").write_text(stamp)
    (folder / "submission_secret.txt").write_text(secret)
    return folder


@pytest.fixture
def collected(root, tmp_path, monkeypatch):
    """`collected()` collects the week, with this test's user known as ada; it returns (outcome, sentence) per line."""
    monkeypatch.setattr(exchange, "account", lambda number: {ME: "ada", 60_001: "bob"}.get(number, "somebody"))

    def run(**changes):
        lines = collect(Collection(WEEK, tmp_path / "submitted", **changes), root, COURSE)
        return [(line.student, line.outcome, line.sentence) for line in lines]

    return run


# ---- the folders ----------------------------------------------------------------------------------------------------


def test_the_exchange_has_the_modes_that_keep_it_safe(root):
    assert stat.S_IMODE(root.stat().st_mode) == 0o1777
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root / COURSE).iterdir()}
    assert modes == {"inbound": 0o3733, "outbound": 0o755, "feedback": 0o711}


def linked(root: Path, path: str) -> None:
    (root / path).rename(root / "elsewhere")
    (root / path).symlink_to(root / "elsewhere")


WRONG = {
    "no sticky bit": (lambda root: root.chmod(0o777), "has mode 777, not 1777"),
    "closed to students": (lambda root: root.chmod(0o755), "has mode 755, not 1777"),
    "a course writable by all": (lambda root: (root / COURSE).chmod(0o777), "has mode 777, not 755"),
    "an inbound without sticky bit": (lambda root: (root / COURSE / "inbound").chmod(0o2733), "not 3733"),
    "an inbound that can be listed": (lambda root: (root / COURSE / "inbound").chmod(0o3777), "not 3733"),
    "pages that can be listed": (lambda root: (root / COURSE / "feedback").chmod(0o755), "not 711"),
    "no inbound": (lambda root: (root / COURSE / "inbound").rmdir(), "inbound does not exist"),
    "a link for the course": (lambda root: linked(root, COURSE), "is a link or a file"),
    "a link for inbound": (lambda root: linked(root, f"{COURSE}/inbound"), "is a link or a file"),
    "a parent writable by all": (lambda root: root.parent.chmod(0o777), "anyone can replace the contents of"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_is_collected_from_an_exchange_that_could_be_replaced(root, collected, wrong):
    change, words = WRONG[wrong]
    change(root)
    found = exchange.problems(root, COURSE, ME)
    assert any(words in sentence for sentence in found), found
    with pytest.raises(ValueError, match="nothing was collected"):
        collected()
    if "link" not in wrong and "parent" not in wrong:
        assert exchange.make(root, COURSE, ME) and exchange.problems(root, COURSE, ME) == []


@pytest.mark.skipif(ME != 0, reason="only root can give folders away")
@pytest.mark.parametrize("path", [COURSE, f"{COURSE}/inbound", f"{COURSE}/outbound", f"{COURSE}/feedback"])
def test_a_folder_of_another_is_set_aside_by_root_and_refused_by_others(root, path, monkeypatch):
    (root / path / "kept").touch()
    os.chown(root / path, 60_001, 60_001)
    assert any("belongs to" in sentence for sentence in exchange.problems(root, COURSE, ME))
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 60_002)
        with pytest.raises(ValueError, match="only root can move it"):
            exchange.make(root, COURSE, ME)
    assert any("moved to" in sentence for sentence in exchange.make(root, COURSE, ME))
    assert exchange.problems(root, COURSE, ME) == [] and (root / ".set-aside-1" / "kept").exists()


# ---- owner and file type ---------------------------------------------------------------------------------------------


def test_a_submission_is_collected_with_its_secret_and_the_kernels_time(root, collected, tmp_path):
    hand_in(root)
    ((student, outcome, sentence),) = collected()
    folder = tmp_path / "submitted" / "ada" / WEEK
    assert (student, outcome) == ("ada", "collected") and "which counts" in sentence
    assert (folder / f"{WEEK}.ipynb").read_text() == "{}" and (folder / "submission_secret.txt").read_text() == SECRET
    when = datetime.strptime((folder / "timestamp.txt").read_text().strip(), "%Y-%m-%d %H:%M:%S UTC")
    assert abs(when.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=10)
    facts = read_collected(folder)
    assert facts is not None and (facts["lms"], facts["id"]) == ("exchange", "ada")
    assert [line[1] for line in collected()] == ["unchanged"]


def test_another_name_than_the_owners_is_refused(root, collected, tmp_path):
    for claimed in ("bob", "Ada", "", "../ada", "ada ", "root", f"bob+{WEEK}"):
        if "/" not in claimed:
            hand_in(root, claimed, stamp="2027-01-01 00:00:00.000000 UTC", tag="y")
    lines = collected()
    assert len(lines) == 6 and {line[1] for line in lines} == {"left out"}
    assert all("belongs to ada" in line[2] for line in lines) and not (tmp_path / "submitted").exists()


@pytest.mark.skipif(ME != 0, reason="only root can give files away")
def test_files_of_another_in_an_own_folder_are_refused(root, collected):
    for number, name in enumerate((f"{WEEK}.ipynb", "submission_secret.txt", "data", "data/table.csv")):
        folder = hand_in(root, tag=str(number))
        (folder / "data").mkdir()
        (folder / "data" / "table.csv").touch()
        os.chown(folder / name, 60_001, 60_001)
    assert [line[1:] for line in collected() if "belongs to somebody else" not in line[2]] == []


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def deep(path: Path) -> None:
    for _ in range(inbound.MOST_DEPTH + 2):
        path /= "d"
    path.mkdir(parents=True)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(inbound.MOST_BYTES + 1)  # sparse: uses no disk space


def replaced(path: Path, make) -> None:
    path.unlink()
    make(path)


TRAPS = {
    "a link for the notebook": lambda f, s: replaced(f / f"{WEEK}.ipynb", lambda path: path.symlink_to(s)),
    "a link to nothing": lambda f, s: replaced(f / f"{WEEK}.ipynb", lambda path: path.symlink_to("nowhere")),
    "a hard link for the notebook": lambda f, s: replaced(f / f"{WEEK}.ipynb", lambda path: path.hardlink_to(s)),
    "a link for the secret": lambda f, s: replaced(f / "submission_secret.txt", lambda path: path.symlink_to(s)),
    "a link for the time": lambda f, s: replaced(f / "timestamp.txt", lambda path: path.symlink_to(s)),
    "another link": lambda f, s: (f / "data.csv").symlink_to(s),
    "another hard link": lambda f, s: (f / "data.csv").hardlink_to(s),
    "a link to a folder": lambda f, s: (f / "data").symlink_to(s.parent),
    "a link further down": lambda f, s: ((f / "a" / "b").mkdir(parents=True), (f / "a" / "b" / "c").symlink_to(s)),
    "a link for the folder": lambda f, s: (f.rename(s.parent / "folder"), f.symlink_to(s.parent / "folder")),
    "a named pipe for the notebook": lambda f, s: pipe(f / f"{WEEK}.ipynb"),
    "a named pipe": lambda f, s: pipe(f / "data"),
    "a folder for the notebook": lambda f, s: replaced(f / f"{WEEK}.ipynb", lambda path: path.mkdir()),
    "a large notebook": lambda f, s: (f / f"{WEEK}.ipynb").write_bytes(b" " * 5_000_001),
    "large files": lambda f, s: large(f / "data"),
    "many files": lambda f, s: [(f / str(number)).touch() for number in range(inbound.MOST_ENTRIES)],
    "deep folders": lambda f, s: deep(f),
    "no notebook": lambda f, s: (f / f"{WEEK}.ipynb").unlink(),
    "two other notebooks": lambda f, s: (
        (f / f"{WEEK}.ipynb").rename(f / "a.ipynb"),
        (f / "b.ipynb").touch(),
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_strange_submission_is_refused_and_the_last_honest_counts(root, collected, tmp_path, trap):
    secret = tmp_path / "solution.ipynb"
    secret.write_text("the solution")
    hand_in(root, text="honest", tag="a")
    time.sleep(0.02)  # wait for the kernel's clock to tick
    TRAPS[trap](hand_in(root, text="trap", tag="b"), secret)
    lines = collected()
    assert sorted(line[1] for line in lines) == ["collected", "left out"], lines
    assert (tmp_path / "submitted" / "ada" / WEEK / f"{WEEK}.ipynb").read_text() == "honest"
    assert not any("the solution" in path.read_text() for path in (tmp_path / "submitted").rglob("*.*"))


def test_a_file_that_changes_while_it_is_read_is_refused(root, collected, monkeypatch):
    folder = hand_in(root)
    real = os.fdopen

    def meanwhile(number, *mode):
        time.sleep(0.02)
        (folder / f"{WEEK}.ipynb").write_text("changed")
        return real(number, *mode)

    monkeypatch.setattr(inbound.os, "fdopen", meanwhile)
    assert "changed while it was read" in collected()[0][2]


# ---- time and choice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stamp", ["2099-01-01 00:00:00.000000 UTC", "1970-01-01 00:00:00.000000 UTC", "soon", ""])
def test_a_time_chosen_by_a_student_does_not_date_a_submission(root, collected, tmp_path, stamp):
    folder = hand_in(root, stamp=stamp, text="first", tag="a")
    os.utime(folder / f"{WEEK}.ipynb", (4e9, 4e9))
    assert [line[1] for line in collected()] == ["collected"]
    time.sleep(0.02)
    hand_in(root, text="second", tag="b")
    assert sorted(line[1] for line in collected()) == ["kept", "left out"]
    assert sorted(line[1] for line in collected(replace=True)) == ["left out", "replaced"]
    own = tmp_path / "submitted" / "ada" / WEEK
    assert (own / f"{WEEK}.ipynb").read_text() == "second"
    assert (own / "timestamp.txt").read_text().startswith(str(datetime.now(UTC).year))


def test_a_notebook_changed_after_handing_in_has_the_later_time(root):
    folder = hand_in(root)
    time.sleep(0.02)
    between = time.time()
    time.sleep(0.02)
    (folder / f"{WEEK}.ipynb").write_text("later")
    os.utime(folder / f"{WEEK}.ipynb", (0, 0))
    with inbound.opened(root / COURSE / "inbound") as opened:
        found = inbound.read(folder.name, opened, WEEK, ME)
    assert found.time.timestamp() > between - 0.01 and found.data == b"later"


def test_many_submissions_of_one_student_are_looked_at_up_to_a_limit(root, collected, monkeypatch):
    monkeypatch.setattr("autograder.lms.from_exchange.MOST_TRIES", 3)
    for number in range(6):
        hand_in(root, tag=str(number))
    lines = collected()
    assert len(lines) == 4 and "3 older submissions" in lines[-1][2]


@pytest.mark.parametrize("secret", ["", "short", SECRET.upper(), SECRET + "0", "../../x", SECRET + "\n" + SECRET])
def test_a_secret_that_nbgrader_has_not_made_is_not_taken(root, collected, tmp_path, secret):
    hand_in(root, secret=secret)
    ((_, outcome, sentence),) = collected()
    assert outcome == "collected" and "secret" in sentence
    assert not (tmp_path / "submitted" / "ada" / WEEK / "submission_secret.txt").exists()


def test_the_secret_of_another_is_not_taken(root, collected, tmp_path):
    other = tmp_path / "submitted" / "bob" / WEEK
    other.mkdir(parents=True)
    (other / "submission_secret.txt").write_text(SECRET + "\n")
    hand_in(root)
    assert "the same secret as bob's" in collected()[0][2]
    assert not (tmp_path / "submitted" / "ada" / WEEK / "submission_secret.txt").exists()


def test_the_class_table_names_the_student_of_an_account(root, collected, tmp_path):
    hand_in(root, file=f"{WEEK} (1).ipynb")
    roster = Roster((Student("Lovelace-Ada", exchange="ada"), Student("bob")))
    ((student, outcome, sentence),) = collected(roster=roster)
    assert (student, outcome) == ("Lovelace-Ada", "collected") and "was taken as" in sentence
    assert (tmp_path / "submitted" / "Lovelace-Ada" / WEEK / f"{WEEK}.ipynb").exists()
    assert collected(roster=roster, student="bob") == []


def test_the_doctor_says_when_the_exchange_is_wrong(root, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXCHANGE", str(root))
    assert doctor.exchange().state == "ok"
    root.chmod(0o777)
    found = doctor.exchange()
    assert found.state == "problem" and "1777" in found.value and "autograder exchange" in found.advice
    monkeypatch.setenv("NBGRADER_EXCHANGE", str(root / "nowhere"))
    assert doctor.exchange().state == "ok"


def test_the_command_makes_and_repairs_the_exchange(tmp_path, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXCHANGE", str(tmp_path / "new"))
    for change in (lambda: None, lambda: (tmp_path / "new").chmod(0o777)):
        change()
        done = CliRunner().invoke(app, ["exchange"])
        assert done.exit_code == 0 and "is ready for sys602" in done.output
    linked(tmp_path / "new", f"{COURSE}/inbound")
    refused = CliRunner().invoke(app, ["exchange", "--owner", "nobody-of-this-machine"])
    assert refused.exit_code == 2 and "not an account on this machine" in refused.output
