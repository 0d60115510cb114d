"""Check that the stages of all ranks fit together, with one small all-reduce before the first message of a step.

Gloo does not compare sizes: it fills a buffer that is too large only in part, reinterprets another dtype, and aborts
the process if the buffer is too small. So every rank learns what each stage expects, and senders compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.pipeline_parallel.schedule import Schedule, num_microbatches, num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage, Stage

MOST_DIMS = 8
DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
WIDTH = 3 + MOST_DIMS  # numbers per stage, each plus 1: whether it trains, dtype, dimensions, sizes


@dataclass(frozen=True)
class Agreement:
    """What all ranks know: the input that each stage expects, the rows of each microbatch, and which stages train.

    inputs: by stage, for microbatch 0; stages with unknown inputs are left out. If microbatches have different numbers
    of rows (dimension 0), the rows of their activations vary in proportion.
    """

    inputs: Mapping[int, tuple[torch.dtype, tuple[int, ...]]]
    rows: Sequence[int]
    trains: frozenset[int]

    def expected(self, stage: int, microbatch: int) -> tuple[torch.dtype, tuple[int, ...]] | None:
        """Dtype and shape of a stage's input, or None if unknown."""
        if stage not in self.inputs:
            return None
        dtype, shape = self.inputs[stage]
        if shape and self.rows and self.rows[microbatch] != self.rows[0]:
            shape = (shape[0] * self.rows[microbatch] // self.rows[0], *shape[1:])
        return dtype, shape

    def shaped(self, buffer: Tensor, stage: int, microbatch: int) -> Tensor:
        """A buffer for a stage's input, with the number of rows of its microbatch."""
        expected = self.expected(stage, microbatch)
        return buffer if expected is None or expected[1] == buffer.shape else buffer.new_empty(expected[1])

    def check_sent(self, output: Tensor, stage: int, microbatch: int) -> None:
        """Raise ValueError if an output is not what the next stage expects."""
        expected = self.expected(stage + 1, microbatch)
        if expected is None or expected == (output.dtype, tuple(output.shape)):
            return
        raise ValueError(
            f"stage {stage} computes {_text(output.dtype, output.shape)} for microbatch {microbatch}, but stage "
            f"{stage + 1} expects {_text(*expected)}: give stage {stage + 1} an input_like= that matches its "
            "input for microbatch 0; only the rows (dimension 0) may differ between microbatches"
        )

    def cut_off(self, stage: int) -> list[int]:
        """The earlier stages that train, and that get no gradient if this stage returns none."""
        return sorted(one for one in self.trains if one < stage)


NOTHING_KNOWN = Agreement({}, (), frozenset())


def agree(schedule: Schedule, stages: Mapping[int, Stage], *, group: dist.ProcessGroup | None) -> Agreement:
    """Share all stages' inputs with all ranks of a group. Raises ValueError on every rank if a rank's do not fit."""
    in_all, count = num_stages(schedule), num_microbatches(schedule)
    trouble = _trouble(schedule, stages, dist.get_rank(group), in_all, count)
    known = {} if trouble else {n: one for n, one in stages.items() if n < in_all and isinstance(one, ModuleStage)}
    by_stage = [_numbers_of(known[number]) if number in known else [0] * WIDTH for number in range(in_all)]
    rows = _rows(known[0]) if 0 in known else [0] * count
    numbers = [int(bool(trouble)), *rows, *(number for numbers in by_stage for number in numbers)]

    device = dist.distributed_c10d._get_object_coll_device(group)
    on_all = torch.tensor(numbers, device=device)
    dist.all_reduce(on_all, dist.ReduceOp.MAX, group=group)
    any_trouble, *found = on_all.tolist()
    if any_trouble:
        by_rank: list[str] = [""] * dist.get_world_size(group)
        dist.all_gather_object(by_rank, trouble, group=group)
        raise ValueError(next(filter(None, by_rank)))
    agreement = _read(found[:count], [found[count + n * WIDTH :][:WIDTH] for n in range(in_all)])
    _check_rows(agreement)
    return agreement


def _numbers_of(stage: ModuleStage) -> list[int]:
    """A stage as numbers of 1 or more, with 0 for what is unknown."""
    like, trains = stage.input_like, 2 if stage.parameters() else 1
    if like is None:
        return [trains, *[0] * (WIDTH - 1)]
    sizes = [1 + size for size in like.shape]
    return [trains, 1 + DTYPES.index(like.dtype), 1 + like.dim(), *sizes, *[0] * (MOST_DIMS - like.dim())]


def _rows(stage: ModuleStage) -> list[int]:
    return [1 + len(one) if one.dim() else 0 for one in stage.inputs or ()]


def _read(rows: list[int], by_stage: list[list[int]]) -> Agreement:
    """Decode what `_numbers_of` and `_rows` encoded, on whichever rank."""
    inputs = {
        number: (DTYPES[dtype - 1], tuple(size - 1 for size in sizes[: dims - 1]))
        for number, (_, dtype, dims, *sizes) in enumerate(by_stage)
        if dtype
    }
    trains = frozenset(number for number, numbers in enumerate(by_stage) if numbers[0] == 2)
    return Agreement(inputs, [one - 1 for one in rows] if all(rows) else [], trains)


def _check_rows(agreement: Agreement) -> None:
    """Raise ValueError if a stage's rows cannot vary in proportion to those of uneven microbatches."""
    rows = agreement.rows
    for stage, (_, shape) in agreement.inputs.items() if rows and len({*rows}) > 1 else ():
        if shape and (not rows[0] or any(shape[0] * one % rows[0] for one in rows)):
            raise ValueError(
                f"microbatches have {list(rows)} rows, but stage {stage} expects {shape[0]} for the first: give it "
                f"an input_like= of {rows[0]} rows, or give all microbatches the same number of rows"
            )


def _trouble(schedule: Schedule, stages: Mapping[int, Stage], rank: int, in_all: int, count: int) -> str:
    """Why this rank's stages cannot run this schedule, or "" if they can."""
    own = stages_of_rank(schedule, rank)
    if missing := [stage for stage in own if stage not in stages]:
        return f"rank {rank} has slots for stages {missing} but was not given them: give stages[{missing[0]}]"
    for number in own:
        stage = stages[number]
        if isinstance(stage, ModuleStage) and (found := _trouble_of(stage, number, number + 1 == in_all, count)):
            return f"rank {rank}: stage {number} {found}"
    return ""


def _trouble_of(stage: ModuleStage, number: int, is_last: bool, count: int) -> str:
    if (number == 0) != (stage.inputs is not None):
        return "is the first: give it inputs=" if number == 0 else "is not the first: give it input_like=, not inputs="
    if stage.loss is not None and not is_last:
        return "has a loss but is not the last: give the loss to the last stage"
    if stage.input_like is not None and stage.input_like.dim() > MOST_DIMS:
        return f"expects {stage.input_like.dim()} dimensions: use {MOST_DIMS} or fewer"
    return _trouble_of_inputs(stage.inputs, count) if stage.inputs is not None else ""


def _trouble_of_inputs(inputs: Sequence[Tensor], count: int) -> str:
    if len(inputs) != count:
        return f"has {len(inputs)} microbatches, but the schedule has {count}: build it for {len(inputs)}"
    for number, one in enumerate(inputs):
        if (one.dtype, one.dim(), one.shape[1:]) != (inputs[0].dtype, inputs[0].dim(), inputs[0].shape[1:]):
            return (
                f"has microbatch 0 of {_text(inputs[0].dtype, inputs[0].shape)}, but microbatch {number} of "
                f"{_text(one.dtype, one.shape)}: only the rows (dimension 0) may differ"
            )
    return ""


def _text(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{list(shape)} {str(dtype).removeprefix('torch.')}"
