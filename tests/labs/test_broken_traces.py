"""For files that are not traces, `analyze_timeline.py` prints a sentence and sets an exit code, without a traceback."""

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "labs" / "lab02-megatron"))
import analyze_timeline

BOX = {"ph": "X", "ts": 0, "dur": 1, "tid": 0, "name": "0F0"}
TRACES = {
    **{"empty object": {}, "list": [], "null": None, "number": 3, "no list": {"traceEvents": 3}},
    **{"numbers": {"traceEvents": [3]}, "no boxes": {"traceEvents": []}, "bare box": {"traceEvents": [{"ph": "X"}]}},
    **{
        f"{key} = {value!r}": {"traceEvents": [BOX | {key: value}]}
        for key, values in {
            "ts": ("a", None, float("nan"), []),
            "dur": ("a", None, -1, 0, float("inf")),
            "tid": ([1], None, "one", {}),
            "name": (3, None, "Q", ""),
        }.items()
        for value in values
    },
    "profiler without numbers": {"schemaVersion": 1, "traceEvents": [BOX | {"ts": None}]},
    "profiler without names": {"schemaVersion": 1, "traceEvents": [BOX | {"name": 3}]},
    "profiler, odd rank": {"schemaVersion": 1, "distributedInfo": 3, "traceEvents": [BOX]},
}
FILES = {"no text": b"\xff\xfe", "torn": b'{"traceEvents": [', "empty": b"", "nested": b"[" * 100_000}


def analyze(*arguments):
    app = typer.Typer()
    app.command()(analyze_timeline.main)
    ended = CliRunner().invoke(app, [*map(str, arguments)])
    assert ended.exit_code == 2 and isinstance(ended.exception, SystemExit), (ended.exception, ended.output)
    return " ".join(ended.output.split())


@pytest.mark.parametrize("name", [*TRACES, *FILES])
def test_a_file_that_is_no_trace_ends_in_a_sentence(tmp_path, name):
    path = tmp_path / "trace.json"
    path.write_bytes(FILES[name] if name in FILES else json.dumps(TRACES[name]).encode())
    assert "Invalid value" in analyze(path)


def test_a_missing_file_and_a_folder(tmp_path):
    assert "No such file" in analyze(tmp_path / "none.json")
    assert "directory" in analyze(tmp_path)
