"""A one-minute demo in the terminal: real ranks, predicted and measured bytes, and two graded submissions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
import shardlab
import torch
import torch.distributed as dist
from rich.table import Table
from shardlab import collectives, meter
from shardlab.costs import traffic

from autograder import weeks
from autograder.authoring import notebooks
from autograder.grading.grade import grade_one
from autograder.judging.judge import Judge
from autograder.matrices import known
from autograder.terminal import console

WEEK = "week01_collectives"
POINTS = float(sum(check.points for check in weeks.of_week(WEEK)))  # only the automatic ones
NUM_ELEMENTS = 1_000_003
CHEATS = {
    "week01.exchange": "keeps_its_own",
    "week01.ring-reduce-scatter": "all_gather_then_sum",
    "week01.naive-bill": "public_constant",
}


NEXT = (
    "The cheats fail because the grade draws fresh cases and reads from the packets what the ranks sent. "
    "Exercises that call a cheated function lose points, too.",
    "Next: `make lab` opens the course in JupyterLab. Begin with week 0, which takes half an hour and needs no GPU. "
    "Do you teach? Read docs/teaching.md.",
)


def main() -> None:
    """Run both parts of the demo, and say what to do next."""
    show_ranks()
    show_grades()
    for line in NEXT:
        console.print(f"\n{line}", markup=False, highlight=False)


def show_ranks() -> None:
    """Run a ring all-reduce on 2, 3 and 4 real ranks, and compare its bytes by formula and by meter."""
    title = f"bytes sent in a ring all-reduce of {NUM_ELEMENTS:,} floats"
    table = Table("ranks", "formula", "measured", "equal", title=title)
    for num_ranks in (2, 3, 4):
        predicted = [4 * traffic.ring_sent_elements(NUM_ELEMENTS, num_ranks, rank) for rank in range(num_ranks)]
        measured = shardlab.run(sent_bytes, NUM_ELEMENTS, ranks=num_ranks)
        table.add_row(str(num_ranks), f"{predicted[0]:,} B", f"{int(measured[0]):,} B", str(predicted == measured))
    console.print(table)


def sent_bytes(num_elements: int) -> float:
    """Bytes that this rank sends in one ring all-reduce."""
    with meter.record() as bill:
        collectives.ring_all_reduce(torch.ones(num_elements), group=dist.group.WORLD)
    return bill.sent_bytes


def show_grades() -> None:
    """Grade the solution, and the same with three cheats; print the points and feedback of both."""
    with tempfile.TemporaryDirectory() as folder, Judge() as judge:
        submitted = Path(folder)
        write_submission(submitted, "an honest submission", {})
        write_submission(submitted, "a cheating submission", {name: _cheat(name) for name in CHEATS})
        for student in ("an honest submission", "a cheating submission"):
            verdicts = grade_one(student, WEEK, submitted, judge, seed=1)
            table = Table("exercise", "points", "feedback", title=student)
            for name, exercise in verdicts["exercises"].items():
                table.add_row(name, f"{exercise['points']:g} of {exercise['max']:g}", exercise["text"])
            if student.startswith("a cheating"):
                show_cheats()
            console.print(table)


def show_cheats() -> None:
    """Say what the cheating submission does instead of answering three exercises."""
    console.print("\nThe cheating submission is the honest one with three answers replaced:")
    for exercise, name in CHEATS.items():
        story = known.find(exercise, name).story.removeprefix("Wrong: ").rstrip(".")
        console.print(f"  {exercise}: {story}.", markup=False, highlight=False)


def write_submission(submitted: Path, student: str, answers: dict[str, str]) -> Path:
    """Submit the solution of week 1 as `student`, with the cells of the exercises in `answers` replaced."""
    notebook = notebooks.read_source(WEEK)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if cell.metadata.get("nbgrader", {}).get("solution") and notebooks.exercise_id(name) in answers:
            cell.source = answers[notebooks.exercise_id(name)]
    path = submitted / student / WEEK / f"{WEEK}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return path


def _cheat(exercise: str) -> str:
    return known.find(exercise, CHEATS[exercise]).source
