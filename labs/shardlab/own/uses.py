"""The weeks whose pages import each module of `mine`; a test compares this with the pages."""

from __future__ import annotations

from shardlab.own.pieces import PIECES

USES: dict[str, tuple[int, ...]] = {
    "collectives": (15,),
    "ddp": (15,),
    "zero": (4, 15),
    "fsdp": (15,),
    "tensor_parallel": (5, 6, 9, 15),
    "sequence_parallel": (15,),
    "pipeline": (8, 13, 15),
    "zero_bubble": (8, 15),
    "mesh": (15,),
    "planner": (16,),
    "moe": (12, 15),
    "expert_parallel": (12, 15),
    "dualpipe": (15,),
    "long_context": (15,),
    "train": (15,),
}


def rows() -> dict[str, tuple[int, int, tuple[int, ...]]]:
    """{module: (week that writes it, number of functions, later weeks that import it)}, for `draw_own_trainer`."""
    found = {}
    for module, exercises in PIECES.items():
        week = min(int(exercise[4:6]) for exercise in exercises)
        uses = tuple(one for one in USES.get(module, ()) if one > week)
        found[module] = (week, sum(map(len, exercises.values())), uses)
    return found
