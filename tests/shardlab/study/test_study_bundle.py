"""Export everything to one file and import it. A foreign or broken file changes nothing."""

import json
import stat
import zipfile

import pytest
from shardlab.study import bundle, page, records
from shardlab.study.folder import begin
from small_course import WEEK

ANSWER = "def one():\n    return 1  # mine"
MARK = json.dumps({"format": 1})


@pytest.fixture
def worked(folder, write_answer):
    """A folder with an answer, an attempt, a record, a note, and files that are not the learner's work."""
    write_answer("week01.one", ANSWER)
    page.write(folder.attempts / "week01.two-1.py", "old\n")
    records.note("check", path=folder.path, exercise="week01.one", points=2)
    (folder.path / WEEK / "a note: 1.md").write_text("mine")
    (folder.path / WEEK / ".ipynb_checkpoints").mkdir()
    (folder.path / WEEK / ".ipynb_checkpoints" / "old.ipynb").write_text("old")
    (folder.path / "link").symlink_to("/etc")
    return folder


def files(top):
    found = {path.relative_to(top).as_posix(): path.read_bytes() for path in sorted(bundle._files(top))}
    return found


@pytest.fixture
def empty(course, tmp_path):
    return begin(tmp_path / "elsewhere", course)[0]


def test_everything_moves(worked, empty, tmp_path):
    done = bundle.export(worked, tmp_path / "mine.zip")
    assert done.left_out == [] and bundle.bring(empty, tmp_path / "mine.zip") is None
    assert files(empty.path) == files(worked.path) and done.count == len(files(worked.path))
    assert not list(empty.path.glob("*before-import*")) and not list(empty.path.rglob("*checkpoints*"))


def test_an_export_inside_the_folder_does_not_hold_itself(worked):
    bundle.export(worked, worked.path / "mine.zip")
    assert "mine.zip" not in zipfile.ZipFile(worked.path / "mine.zip").namelist()


def test_work_is_put_away_only_if_told(worked, empty, tmp_path):
    bundle.export(empty, tmp_path / "blank.zip")
    before = files(worked.path)
    with pytest.raises(ValueError, match="--replace"):
        bundle.bring(worked, tmp_path / "blank.zip")
    kept = bundle.bring(worked, tmp_path / "blank.zip", replace=True)
    assert kept is not None and files(kept) == before and files(worked.path) == files(empty.path)


def test_an_import_that_stops_half_way_loses_nothing(worked, empty, tmp_path, monkeypatch):
    bundle.export(empty, tmp_path / "blank.zip")
    before = files(worked.path)
    path_type = type(worked.path)
    rename = path_type.rename

    def full(self, target):
        if ".unpacking-" in str(self):
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(path_type, "rename", full)
    with pytest.raises(ValueError, match=r"halfway.*before-import-1"):
        bundle.bring(worked, tmp_path / "blank.zip", replace=True)
    assert files(worked.path / "before-import-1") == before


def test_an_export_overwrites_nothing_and_names_what_it_leaves_out(worked, tmp_path):
    (tmp_path / "there.zip").write_text("mine")
    with pytest.raises(ValueError, match="already exists"):
        bundle.export(worked, tmp_path / "there.zip")
    with pytest.raises(ValueError, match="cannot be written"):
        bundle.export(worked, tmp_path / "nowhere" / "mine.zip")
    (worked.path / ".hidden").write_text("x")
    assert bundle.export(worked, tmp_path / "mine.zip").left_out == [".hidden"]


def zipped(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in entries:
            made.writestr(name, text)
    return path


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


FOREIGN = {
    "above": ("../outside.txt", "leads out of the folder"),
    "above in the middle": ("week01/../../outside.txt", "leads out of the folder"),
    "absolute": ("/tmp/outside.txt", "leads out of the folder"),
    "backslash": ("..\\outside.txt", "leads out of the folder"),
    "drive": ("C:outside.txt", "another drive"),
    "not printable": ("a\nb.txt", "not printable"),
    "hidden": (".jupyter/custom.js", "hidden"),
    "settings": ("jupyter_server_config.py", "when they start"),
    "module": ("week01_rings/sitecustomize.py", "when they start"),
    "twice": ("Start.ipynb", "twice"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_name_changes_nothing(empty, tmp_path, what):
    name, sentence = FOREIGN[what]
    before = files(empty.path)
    made = zipped(tmp_path / "odd.zip", [(".study/folder.json", MARK), ("start.ipynb", "{}"), (name, "x")])
    with pytest.raises(ValueError, match=sentence):
        bundle.bring(empty, made)
    assert files(empty.path) == before and not (tmp_path / "outside.txt").exists()


def test_a_link_changes_nothing(empty, tmp_path):
    made = zipped(tmp_path / "odd.zip", [(".study/folder.json", MARK), (link("week01"), "/etc")])
    with pytest.raises(ValueError, match="a link"):
        bundle.bring(empty, made)


def damaged(path):
    """An export with one changed byte in a packed file."""
    zipped(path, [(".study/folder.json", MARK), ("notes.md", "some text that is long enough to be packed " * 50)])
    data = bytearray(path.read_bytes())
    place = data.index(b"notes.md") + len(b"notes.md") + 20
    data[place] ^= 0xFF
    path.write_bytes(data)


def cut(path):
    zipped(path, [(".study/folder.json", MARK)])
    path.write_bytes(path.read_bytes()[:-30])


BROKEN = {
    "not there": (lambda path: None, "there is no file"),
    "no zip": (lambda path: path.write_text("hello"), "is broken"),
    "empty": (lambda path: path.write_text(""), "is broken"),
    "cut": (cut, "is broken"),
    "damaged": (damaged, "is broken"),
    "not an export": (lambda path: zipped(path, [("a.txt", "x")]), "not an export"),
    "later format": (lambda path: zipped(path, [(".study/folder.json", '{"format": 9}')]), "has a format that"),
    "no format": (lambda path: zipped(path, [(".study/folder.json", "[]")]), "cannot be unpacked"),
    "a file as a folder": (
        lambda path: zipped(path, [(".study/folder.json", MARK), ("a", "x"), ("a/b", "x")]),
        "cannot be unpacked",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_changes_nothing(empty, tmp_path, what):
    make, sentence = BROKEN[what]
    make(tmp_path / "broken.zip")
    before = files(empty.path)
    with pytest.raises(ValueError, match=sentence):
        bundle.bring(empty, tmp_path / "broken.zip")
    assert files(empty.path) == before and not list(empty.path.glob(".unpacking*"))


def test_a_file_that_unpacks_to_too_much_is_refused(empty, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_BYTES", 1000)
    made = zipped(tmp_path / "bomb.zip", [(".study/folder.json", MARK), ("zeros", "0" * 5000)])
    with pytest.raises(ValueError, match="larger than any"):
        bundle.bring(empty, made)
    monkeypatch.setattr(bundle, "_refuse_foreign", lambda *_: None)  # a file may state wrong sizes
    with pytest.raises(ValueError, match="unpacks to more"):
        bundle.bring(empty, made)
