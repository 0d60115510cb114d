"""`shardlab predict` on malformed files, and with every reported column removed."""

import csv
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.commands.cli import app
from shardlab.commands.predict import _answer
from shardlab.costs.validation.predictions import ADDED, DERIVED, REPORTED
from shardlab.costs.validation.published import RUNS, read_rows
from typer.testing import CliRunner

ANSWER = ADDED[:-1]


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
    """One run from each family of sources."""
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
    "dp": ("2147483647", "whose product is at most 1000000"),
    "ffn": ("1.5", "ffn = '1.5' is not a whole number"),
    "kv_heads": ("2.5", "kv_heads = '2.5' is not a whole number"),
    "sp": ("maybe", "sp = 'maybe' is unknown: use True or False"),
    "recompute": ("bananas", "recompute = 'bananas' is unknown: use none, selective or full"),
    "zero_stage": ("7", "zero_stage = '7' is unknown: use 0, 1, 2 or 3"),
    "precision": ("fp32", "precision = 'fp32' is not modeled: use bf16"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_reported_and_the_others_are_done(name, rows, predicted):
    value, word = BAD[name]
    _, whole = predicted(rows[:4])
    printed, done = predicted([*rows[:2], rows[2] | {name: value}, rows[3]])
    assert answers(done[:2] + done[3:]) == answers(whole[:2] + whole[3:])
    assert answers(done[2:3]) == [[""] * len(ANSWER)] and done[2]["not_predicted"] and word in done[2]["not_predicted"]
    assert done[2]["not_predicted"][:60] in printed and done[2]["id"] in printed
    assert "Traceback" not in printed


def test_missing_columns_are_named_at_once(rows, tmp_path):
    columns = [name for name in rows[0] if name not in ("hidden", "tp")]
    done = predict(write(tmp_path / "in.csv", rows[:3], columns), tmp_path / "out.csv")
    assert done.exit_code == 2 and "lacks the column hidden, tp" in done.output
    assert not (tmp_path / "out.csv").exists()


def test_columns_that_may_be_empty_may_be_absent(rows, predicted):
    absent = ("note", "source", "schedule", "sp")
    printed, done = predicted(rows[:3], [name for name in rows[0] if name not in absent])
    assert "has no column source, sp, schedule, note: treated as not stated" in printed
    assert answers(done) == answers(predicted([row | dict.fromkeys(absent, "") for row in rows[:3]])[1])


def spelled(row, **changed):
    return row | {name: change(row[name]) for name, change in changed.items()}


def test_spellings_of_spreadsheets_are_the_same_run(rows, predicted):
    _, as_published = predicted(rows)
    other = [
        spelled(row, sp=str.upper, recompute=str.title, zero_stage=lambda x: x and x + ".0", layers=lambda x: f" {x}.0")
        for row in rows
    ]
    assert answers(predicted(other)[1]) == answers(as_published)


@pytest.mark.parametrize(
    ("delimiter", "encoding", "begin", "end"),
    [(",", "utf-8-sig", "", "\r\n"), (";", "utf-8", "", "\n"), ("\t", "utf-8", "\n\n", "\n"), ("|", "utf-8", "", "\r")],
    ids=["byte-order mark", "semicolons", "tabs after blank lines", "bars, old line ends"],
)
def test_tables_of_other_programs(delimiter, encoding, begin, end, rows, predicted, tmp_path):
    _, as_published = predicted(rows[:3])
    with (tmp_path / "other.csv").open("w", newline="", encoding=encoding) as file:
        file.write(begin)
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator=end)
        writer.writeheader()
        writer.writerows(rows[:3])
    done = predict(tmp_path / "other.csv", tmp_path / "out.csv")
    assert done.exit_code == 0 and "3 of 3 runs predicted" in done.output
    written = list(csv.DictReader((tmp_path / "out.csv").open(newline=""), delimiter=delimiter))
    assert answers(written) == answers(as_published) and written[0]["id"] == rows[0]["id"]


def test_quoted_newlines_stay_in_their_field(rows, predicted):
    note = 'two\nlines, "quoted"\r\nand a third'
    printed, done = predicted([rows[0] | {"note": note}, rows[1] | {"id": "a\nb", "layers": "x\ny" * 200}])
    assert done[0]["note"] == note and done[0]["not_predicted"] == ""
    told = printed.splitlines()[-1]
    assert told.strip().startswith("a b: layers = ") and len(told) < 300


def test_a_column_that_is_there_twice(rows, tmp_path):
    path = write(tmp_path / "in.csv", rows[:2])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0] + ",tp", *(line + ",3" for line in lines[1:])]))
    done = predict(path, tmp_path / "out.csv")
    assert done.exit_code == 2 and "has the column tp more than once: keep one" in done.output


def test_a_comma_out_of_quotes_shifts_nothing_in_silence(rows, tmp_path):
    path = write(tmp_path / "in.csv", rows[:3])
    head, first, second, third = path.read_text().splitlines()
    path.write_text("\n".join([head, first, second.replace(",", ", and,", 1), third]))
    done, out = predict(path, tmp_path / "out.csv"), tmp_path / "out.csv"
    assert done.exit_code == 0 and "2 of 3" in done.output
    assert "the row has 1 more fields than columns" in read_rows(out)[1]["not_predicted"]


def test_a_quote_out_of_place_is_found_by_its_line(rows, tmp_path):
    path = write(tmp_path / "in.csv", [row | {"note": "x"} for row in rows[:4]])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], '"a"b' + lines[2], *lines[3:]]))
    done = predict(path, tmp_path / "out.csv")
    assert done.exit_code == 2 and "on line 3" in done.output and "cannot be read" in done.output


def texts():
    strange = (
        "",
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "1.5",
        "9" * 400,
        "1_0",
        "0x10",
        "True",
        "=1+1",
        "1e9",
        "\x00",
        "8,",
    )
    return st.sampled_from(strange) | st.text(max_size=20)


@pytest.mark.parametrize("name", ["tp", "pp", "dp", "cp"])
def test_a_degree_of_nothing_is_named(rows, name):
    """For a run with one whole batch per rank, dp = 0 used to raise "integer division or modulo by zero"."""
    reasons = {_answer(row | {name: "0"})["not_predicted"] for row in rows}
    assert reasons == {f"{name} = '0' is not a valid degree: use 1 or more"}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_cell_gives_a_finite_prediction_or_a_reason(rows, data):
    name, row = data.draw(st.sampled_from(list(rows[0]))), data.draw(st.sampled_from(rows))
    answer = _answer(row | {name: data.draw(texts())})
    times = [answer[name] for name in ANSWER]
    assert times == [""] * len(ANSWER) if answer["not_predicted"] else all(0 < float(one) < math.inf for one in times)
    assert not any(word in answer["not_predicted"] for word in ("invalid literal", "division", "NoneType", "math"))


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
    assert done.exit_code == 2 and "lacks the column layers, hidden" in done.output


def test_files_that_are_folders(rows, tmp_path):
    path = write(tmp_path / "in.csv", rows[:1])
    for runs, out, option in ((tmp_path, tmp_path / "out.csv", "--runs"), (path, tmp_path, "--out")):
        done = predict(runs, out)
        assert done.exit_code == 2 and "cannot " in done.output and option in done.output, done.output


def test_a_place_that_cannot_be_written(rows, tmp_path):
    done = predict(write(tmp_path / "in.csv", rows[:1]), tmp_path / "none" / "out.csv")
    assert done.exit_code == 2 and "cannot write" in done.output
