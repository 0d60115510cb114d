"""`shardlab predict` on files that are not what they should be, and with every reported column taken out."""

import csv

import pytest
from shardlab.cli import app
from shardlab.costs.validation.predictions import ADDED, DERIVED, REPORTED
from shardlab.costs.validation.published import RUNS, read_rows
from typer.testing import CliRunner

ANSWER = ADDED[:2]


def predict(runs, out):
    typed = ["predict", "--runs", str(runs), "--out", str(out)]
    return CliRunner().invoke(app, typed, env={"COLUMNS": "400", "TERM": "dumb"})


def write(path, rows, columns=None):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def rows():
    """One run of every family of sources."""
    return list({row["id"].split("-")[0]: row for row in read_rows(RUNS)}.values())


@pytest.fixture
def predicted(tmp_path):
    def run(rows, columns=None):
        done = predict(write(tmp_path / "in.csv", rows, columns), tmp_path / "out.csv")
        assert done.exit_code == 0, done.output
        return done.output, read_rows(tmp_path / "out.csv")

    return run


def answers(rows):
    return [[row[name] for name in ANSWER] for row in rows]


def test_no_reported_column_is_read(rows, predicted):
    _, as_published = predicted(rows)
    assert sum(bool(row["predicted_step_s"]) for row in as_published) > len(rows) / 2
    blank = [row | dict.fromkeys((*REPORTED, *DERIVED), "") for row in rows]
    absurd = [row | dict.fromkeys((*REPORTED, *DERIVED), "123456789") for row in rows]
    gone = [name for name in rows[0] if name not in (*REPORTED, *DERIVED)]
    for changed, columns in ((blank, None), (absurd, None), (rows, gone)):
        assert answers(predicted(changed, columns)[1]) == answers(as_published)


BAD = {
    "layers": ("none", "layers"),
    "hidden": ("-4096", "hidden"),
    "gpu": ("Abacus-9", "Abacus-9"),
    "tp": ("3", ""),
    "n_gpus": ("1e400", "n_gpus"),
    "global_batch": ("", "global_batch"),
    "heads": ("0", "heads"),
    "seq": ("nan", "seq"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_reported_and_the_others_are_done(name, rows, predicted):
    value, word = BAD[name]
    _, whole = predicted(rows[:4])
    printed, done = predicted([*rows[:2], rows[2] | {name: value}, rows[3]])
    assert answers(done[:2] + done[3:]) == answers(whole[:2] + whole[3:])
    assert answers(done[2:3]) == [["", ""]] and done[2]["not_predicted"] and word in done[2]["not_predicted"]
    assert done[2]["not_predicted"][:60] in printed and done[2]["id"] in printed
    assert "Traceback" not in printed


def test_a_missing_column_is_named(rows, predicted):
    printed, done = predicted(rows[:3], [name for name in rows[0] if name != "hidden"])
    assert answers(done) == [["", ""]] * 3 and "there is no column hidden" in printed and "0 of 3" in printed


def test_rows_that_are_too_short_or_too_long(rows, predicted, tmp_path):
    path = write(tmp_path / "in.csv", rows[:1])
    with path.open("a") as file:
        file.write("short,row\n" + "x," * 60 + "\n")
    done = predict(path, tmp_path / "out.csv")
    out = read_rows(tmp_path / "out.csv")
    assert done.exit_code == 0 and [bool(row["not_predicted"]) for row in out] == [False, True, True]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no rows"),
        (b"id,layers\n", "has no rows"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "cannot be read"),
        (b'"' + b"x" * 200_000, "cannot be read"),
    ],
    ids=["empty", "only a header", "a picture", "a quote that never ends"],
)
def test_what_is_no_table_is_answered_with_a_sentence(content, sentence, tmp_path):
    (tmp_path / "in.csv").write_bytes(content)
    done = predict(tmp_path / "in.csv", tmp_path / "out.csv")
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output
    assert not (tmp_path / "out.csv").exists()


def test_other_text_is_no_table_of_runs(tmp_path):
    (tmp_path / "in.csv").write_text("Dear reader,\nthis is a letter.\n")
    done = predict(tmp_path / "in.csv", tmp_path / "out.csv")
    assert "there is no column" in done.output and "0 of 1" in done.output


def test_files_that_are_folders(rows, tmp_path):
    path = write(tmp_path / "in.csv", rows[:1])
    for runs, out, option in ((tmp_path, tmp_path / "out.csv", "--runs"), (path, tmp_path, "--out")):
        done = predict(runs, out)
        assert done.exit_code == 2 and "cannot be" in done.output and option in done.output, done.output


def test_a_place_that_cannot_be_written(rows, tmp_path):
    done = predict(write(tmp_path / "in.csv", rows[:1]), tmp_path / "none" / "out.csv")
    assert done.exit_code == 2 and "cannot be written" in done.output
