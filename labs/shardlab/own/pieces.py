"""The functions that each exercise adds to the learner's own trainer, by module of `mine`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GIVEN = ("adam", "model", "program")  # modules that the course gives to every learner

PIECES: dict[str, dict[str, tuple[str, ...]]] = {
    "collectives": {
        "week01.ring-reduce-scatter": ("ring_reduce_scatter",),
        "week01.ring-all-reduce": ("ring_all_gather", "ring_all_reduce"),
    },
    "ddp": {
        "week02.assign-buckets": ("assign_buckets",),
        "week02.ddp-backward": ("ddp_backward",),
    },
    "zero": {
        "week03.flatten": ("flatten_and_pad", "unflatten"),
        "week03.zero1": ("mean_slice", "zero1_state", "zero1_step"),
        "week03.zero2": ("zero2_backward",),
    },
    "fsdp": {
        "week04.tied": ("Gather",),
    },
    "tensor_parallel": {
        "week05.operators": ("ToAll", "SumOfAll"),
        "week05.mlp": ("copy_to_tp", "reduce_from_tp"),
        "week05.cross-entropy": ("vocabulary_loss",),
    },
    "sequence_parallel": {
        "week06.operators": ("gather_sequence", "scatter_sequence"),
        "week06.block": ("mlp_block",),
        "week06.recompute": ("recompute_function",),
    },
    "pipeline": {
        "week07.split-stages": ("split_stages",),
        "week07.gpipe": ("gpipe",),
        "week07.one-f-one-b": ("one_f_one_b",),
        "week07.pipeline-step": ("owners", "run_slots"),
    },
    "zero_bubble": {
        "week08.interleaved": ("interleaved",),
        "week08.zb-h1": ("zb_h1",),
    },
    "mesh": {
        "week09.coordinates": ("coordinates",),
        "week09.groups": ("groups",),
        "week09.same-order": ("my_groups",),
    },
    "planner": {
        "week10.layouts": ("layouts",),
        "week10.fitting": ("rank_bytes", "fitting"),
        "week10.ranked": ("step_seconds", "ranked"),
    },
    "moe": {
        "week11.router": ("choose",),
        "week11.balance": ("moved_bias",),
    },
    "expert_parallel": {
        "week12.exchange": ("AllToAll", "exchange"),
        "week12.layer": ("run_experts", "expert_layer"),
    },
    "dualpipe": {
        "week13.dualpipe": ("dualpipe_v",),
    },
    "long_context": {
        "week14.batch": ("zig_zag", "my_part"),
        "week14.ring": ("ring_attention",),
        "week14.ring-backward": ("ring_backward",),
    },
    "build": {
        "week15.reshard": ("reads",),
        "week15.newest": ("newest_complete",),
    },
    "train": {
        "week15.data-order": ("sequences",),
        "week15.finish": ("finish_gradients",),
        "week15.own-weights": ("own_stages", "own_weights", "new_units"),
        "week15.stage": ("named", "run_block", "stage_output"),
        "week15.backward": ("overlaps", "Losses", "backward"),
        "week15.update": ("move", "update"),
        "week15.loop": ("new_trainer", "own_batch", "train_step"),
    },
}


@dataclass(frozen=True)
class Piece:
    """The names that one exercise adds to a module of `mine`."""

    exercise: str
    module: str
    names: tuple[str, ...]

    @property
    def week(self) -> str:
        """The exercise's week, such as week03."""
        return self.exercise.partition(".")[0]


def pieces() -> Iterator[Piece]:
    """All pieces, module by module."""
    for module, exercises in PIECES.items():
        for exercise, names in exercises.items():
            yield Piece(exercise, module, names)


def piece_of(exercise: str) -> Piece | None:
    """The piece that an exercise adds; None if it adds nothing."""
    return next((one for one in pieces() if one.exercise == exercise), None)


def home_of(module: str, name: str) -> Piece | None:
    """The piece that defines a name in a module."""
    return next((one for one in pieces() if one.module == module and name in one.names), None)
