"""Entries of the board: timed with the reference, written to a file, and merged from several files into one page."""

from __future__ import annotations

import html
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from shardlab.hybrid.race import REFERENCE, Lap, RaceEntry, from_dict

from autograder import weeks
from autograder.authoring.course import ROOT
from autograder.checks.formulas import value_of
from autograder.judging.judge import Judge
from autograder.reading.dossier import open_dossier
from autograder.weeks.week15_capstone_build.recipe import CHECK, LOSS, _over_cap, _wrong_loss, laps_of

EXERCISE, WEEK = CHECK.exercise, "week15_capstone_build"
RUNS = 3
Race = Callable[[RaceEntry], Sequence[Lap]]


@dataclass(frozen=True)
class Entry:
    """A student's entry: best tokens per second of RUNS, and the reference's in the same minutes on this machine."""

    student: str
    recipe: dict[str, object]
    tokens_per_second: float
    reference: float
    peak_bytes: int
    loss: float
    machine: str
    time: str

    @property
    def ratio(self) -> float:
        """Speed relative to the reference; the only number that is comparable between machines."""
        return self.tokens_per_second / self.reference


def timed(student: str, recipe: RaceEntry, race: Race) -> Entry:
    """Race a recipe and the reference alternately, RUNS times each; keep the best result of each."""
    best = {"mine": 0.0, "reference": 0.0}
    lap: Lap | None = None
    for _ in range(RUNS):
        for who, one in (("reference", REFERENCE), ("mine", recipe)):
            laps = race(one)
            best[who] = max(best[who], min(each.tokens_per_second for each in laps))
            if who == "mine":
                lap, peak = laps[0], max(each.peak_bytes for each in laps)
    assert lap is not None
    own = {name: value for name, value in asdict(recipe).items() if value != getattr(REFERENCE, name)}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Entry(student, own, best["mine"], best["reference"], peak, lap.losses[-1], platform.machine(), now)


def write(entries: Iterable[Entry], path: Path) -> None:
    """Write entries to a local file, one per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in entries), encoding="utf-8")


def read(path: Path) -> list[Entry]:
    """Read the entries of a file. Raises ValueError with file name and line number for a malformed line."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = Entry(**json.loads(line))
            if not (entry.reference > 0 and entry.tokens_per_second > 0):
                raise ValueError("a speed is not positive")
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is not an entry of a board: {error}") from None
        found.append(entry)
    return found


def merged(files: Iterable[Sequence[Entry]]) -> list[Entry]:
    """Return each student's latest entry, fastest first, by ratio because machines differ."""
    latest: dict[str, Entry] = {}
    for entry in sorted((one for file in files for one in file), key=lambda one: one.time):
        latest[entry.student] = entry
    return sorted(latest.values(), key=lambda one: (-one.ratio, one.student))


def page(entries: Sequence[Entry]) -> str:
    """Render the board as a standalone page without scripts."""
    rows = "".join(
        f"<tr><td>{place}</td><td>{html.escape(one.student)}</td><td>{one.ratio:.2f}×</td>"
        f"<td>{one.tokens_per_second:,.0f}</td><td>{one.reference:,.0f}</td><td>{one.peak_bytes / 1e3:,.0f} kB</td>"
        f"<td>{one.loss:.3f}</td><td><code>{html.escape(json.dumps(one.recipe))}</code></td></tr>\n"
        for place, one in enumerate(entries, 1)
    )
    heads = "".join(
        f"<th>{name}</th>"
        for name in ("", "who", "of reference", "tokens/s", "reference", "fullest rank", "loss", "recipe")
    )
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Week 15: the board</title>\n'
        "<style>body{font:16px sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:right}"
        "tr:nth-child(even){background:#f2f2f2}code{font-size:13px}</style>\n"
        "<h1>Week 15: tokens per second under a memory cap</h1>\n"
        "<p>Best of three runs, alternating with the reference on the same machine. Tokens per second cannot be "
        "compared between machines, but ratios to the reference can. No points depend on the ranking.</p>\n"
        f"<table><tr>{heads}</tr>\n{rows}</table></html>\n"
    )


def recipe_of(student: str, submitted: Path, judge: Judge, root: Path = ROOT) -> RaceEntry:
    """Return a student's submitted recipe. Raises ValueError with the reason if it cannot race."""
    answer = open_dossier(student, WEEK, submitted, root).answers.get(EXERCISE)
    if answer is None:
        raise ValueError("no answer")
    check = weeks.find(EXERCISE)
    reply = judge.ask(check.job(check.make({"part": LOSS, "seed": 0}, Random(0)), answer))
    given = value_of(reply)
    if not isinstance(given, dict):
        raise ValueError("the recipe is not a dict")
    return from_dict({str(name): value for name, value in given.items()})


def problem_of(recipe: RaceEntry, seed: int) -> str | None:
    """Return why a recipe is not on the board; the same reasons cost it its points."""
    laps = laps_of(recipe, seed)
    if isinstance(laps, str):
        return laps
    return _wrong_loss(recipe, laps, seed) or _over_cap(laps)
