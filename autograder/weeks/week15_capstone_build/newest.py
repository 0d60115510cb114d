"""After a crash: the newest complete checkpoint among truncated, corrupted and never renamed ones."""

from __future__ import annotations

import hashlib
import json
from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of

GOOD, NO_MANIFEST, HALF_MANIFEST, GONE, SHORT, FLIPPED, FEWER, NOT_RENAMED, EXTRA = (
    "good",
    "no manifest",
    "half a manifest",
    "a file is gone",
    "a file is cut short",
    "a bit is flipped",
    "the manifest lacks a rank",
    "never renamed",
    "a stray file",
)
DAMAGES = (NO_MANIFEST, HALF_MANIFEST, GONE, SHORT, FLIPPED, FEWER, NOT_RENAMED)
WHY = {
    NO_MANIFEST: "it has no manifest.json because the save stopped before its last file",
    HALF_MANIFEST: "its manifest.json is truncated",
    GONE: "a file that its manifest lists is missing",
    SHORT: "a file is shorter than when it was written",
    FLIPPED: "a file's checksum differs from its manifest, although the length is right",
    FEWER: "it was saved by more ranks than its manifest has files",
    NOT_RENAMED: "its folder still has the name of an unfinished save, .tmp",
}


def checkpoint(step: int, ranks: int, damage: str, rng: Random) -> tuple[str, dict[str, str]]:
    """The name of a checkpoint's folder and the text of its files."""
    files = {f"rank-{rank}": f"{step} {rank} {rng.random()} " * rng.randint(2, 5) for rank in range(ranks)}
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    victim = f"rank-{rng.randrange(ranks)}"
    if damage == FEWER:
        del sums[victim]
    if damage in (GONE, FEWER):
        del files[victim]
    if damage == SHORT:
        files[victim] = files[victim][:-2]
    if damage == FLIPPED:
        files[victim] = files[victim][:-2] + ("x" if files[victim][-2] != "x" else "y") + files[victim][-1]
    manifest = json.dumps({"step": step, "ranks": ranks, "sha256": sums})
    if damage == HALF_MANIFEST:
        manifest = manifest[: len(manifest) // 2]
    if damage != NO_MANIFEST:
        files["manifest.json"] = manifest
    if damage == EXTRA:
        files[".rank-0.part"] = "left by an earlier save"
    return f"step-{step}" + (".tmp" if damage == NOT_RENAMED else ""), files


def _make(case: Case, rng: Random) -> Task:
    folders = [checkpoint(step, case["ranks_saved"], damage, rng) for step, damage in case["steps"]]
    rng.shuffle(folders)
    good = [step for step, damage in case["steps"] if damage in (GOOD, EXTRA)]
    due = f"step-{max(good)}" if good else None
    return Task("newest_complete", 1, [[[dict(folders)]]], [due], [])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, due = value_of(reply), task.expected[0]
    if received == due and (received is None or type(received) is str):
        return None
    for step, damage in case["steps"]:
        if damage in WHY and received == f"step-{step}" + (".tmp" if damage == NOT_RENAMED else ""):
            return f"{received} is not complete: {WHY[damage]}."
    if due is None:
        return f"You returned {received!r}, but no checkpoint is complete: return None."
    return f"You returned {received!r}, but {due} is the newest complete one."


def _draw(rng: Random) -> list[Case]:
    """Each kind of damage on the newest checkpoint; several at once; step numbers of any length; none complete."""

    def case(*steps: tuple[int, str]) -> Case:
        return {"ranks_saved": rng.randint(2, 4), "steps": [list(one) for one in steps]}

    first = rng.randint(3, 8)
    alone = [case((first, GOOD), (first + 1, GOOD), (first + 2, damage)) for damage in DAMAGES]
    return [
        *alone,
        case((9, GOOD), (10, EXTRA), (100, SHORT)),
        case((98, GOOD), (99, FLIPPED), (100, NO_MANIFEST), (101, NOT_RENAMED)),
        case((5, GONE), (6, HALF_MANIFEST)),
        case((rng.randint(1, 9), GOOD)),
    ]


CHECK = Check(
    exercise="week15.newest",
    points=2,
    optional=True,
    names=("newest_complete",),
    public=(
        {"ranks_saved": 2, "steps": [[8, GOOD], [9, GOOD], [10, EXTRA]]},
        {"ranks_saved": 3, "steps": [[7, GOOD], [8, NO_MANIFEST], [9, SHORT]]},
        {"ranks_saved": 3, "steps": [[20, GOOD], [30, FLIPPED], [40, HALF_MANIFEST], [50, NOT_RENAMED]]},
        {"ranks_saved": 2, "steps": [[1, GONE], [2, FEWER]]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.train", "shardlab.data_parallel.checkpoint"),
    hints=(
        "Go through the folders from the newest step to the oldest, compared as numbers. What must a complete one "
        "have?",
        "manifest.json can be read as JSON; it lists as many files as ranks; each file exists and its sha256 is right. "
        "Ignore files that are not in the manifest.",
        "hashlib.sha256(text.encode()).hexdigest(). json.loads raises ValueError for half a manifest. Names that do "
        "not match step-NUMBER were never renamed.",
    ),
)
