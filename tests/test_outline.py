"""docs/outline.md covers the whole outline, and names only exercises, pages and labs that exist."""

import re
from pathlib import Path

import pytest

from autograder import weeks

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "outline.md"
EXERCISES = {check.exercise for checks in weeks.WEEKS.values() for check in checks}
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "`" in line
]
ASKED = (  # one line of the outline each: papers, posts and guides, source files and frameworks, labs
    *("1909.08053", "1910.02054", "2201.12023", "2602.09109", "2412.19437", "1811.06965", "2104.04473", "2306.10209"),
    *("2310.01889", "2001.08361", "2407.21783", "2201.11990", "TernGrad", "QSGD"),
    *("Accelerate", "ZeRO tutorial", "Alpa and Ray", "Megatron Bridge", "EPLB", "Meta", "Transformers", "lecture 18"),
    *("Playbook", "FSDP tutorial", "layers.py", "mappings.py", "schedules.py", "p2p_communication.py"),
    *("distributed optimizer", "DeepSpeed", "Nanotron", "Apex", "ColossalAI", "DDP", "lab 1", "lab 2", "lab 3"),
    *("mixed precision", "top-k", "FSDP", "1F1B", "interleaved", "experts", "DualPipe", "context parallelism"),
    *("capstone", "one trillion", "TP 8, PP 4, DP 32", "scaling efficiency", "hybrid parallelism"),
)


def places(row: tuple[str, ...]) -> list[str]:
    return re.findall(r"`([^`]+)`", row[-1])


@pytest.mark.parametrize("asked", ASKED)
def test_a_line_of_the_outline_has_a_row(asked):
    assert [row for row in ROWS if asked in row[0] and places(row)], f"add a row for {asked!r} to docs/outline.md"


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_row_names_what_exists(row):
    assert len(row) == 2 and places(row)
    missing = [one for one in places(row) if one not in EXERCISES and not (ROOT / one).is_dir()]
    assert missing == [], "neither an exercise nor a folder"


def test_no_row_is_written_twice():
    assert len({row[0] for row in ROWS}) == len(ROWS)
