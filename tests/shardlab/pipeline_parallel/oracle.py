"""Recorded orders of torch, DeepSeek and the zero-bubble authors, for the tests."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "oracles"


class Recorded(NamedTuple):
    """One recorded schedule: texts[rank] are its slots in torch's grammar."""

    name: str
    num_ranks: int
    num_microbatches: int
    virtual: int
    texts: list[list[str]]
    figures: dict

    def __str__(self) -> str:
        return f"{self.name}-P{self.num_ranks}-M{self.num_microbatches}-v{self.virtual}"


@cache
def recorded(file: str) -> list[Recorded]:
    """Every schedule of `torch`, `dualpipe` or `zero_bubble`."""
    entries = json.loads((FOLDER / f"{file}_orders.json").read_text())["schedules"]
    return [
        Recorded(
            entry["schedule"],
            entry["pp"],
            entry["microbatches"],
            entry.get("virtual", 1),
            [rank.get("executed", rank["compute"]) for rank in entry["ranks"]],
            entry["sim_F1_I1_W1_B2_O3"],
        )
        for entry in entries
    ]


def named(file: str, *names: str) -> list[Recorded]:
    """The recorded schedules with these names. Fails if there are none."""
    found = [entry for entry in recorded(file) if entry.name in names]
    assert found, f"{file} has no {names}"
    return found
