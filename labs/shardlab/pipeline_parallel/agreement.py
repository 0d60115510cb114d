"""Before the first message of a step: do the stages of all ranks fit each other? One small all-reduce finds out.

Gloo does not compare sizes: a receive that is too large is filled in part, another dtype is read as it comes,
and one that is too small ends the process. So every rank learns what each stage expects, and a sender compares.
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
WIDTH = 3 + MOST_DIMS  # numbers per stage: does it train, dtype, dimensions, sizes; each one more than it is


@dataclass(frozen=True)
class Agreement:
    """Known to all ranks: the input that each stage expects, the rows of each microbatch, and which stages train.

    inputs: by stage, for microbatch 0; a stage that says nothing is left out. Where microbatches have different numbers
    of rows (dimension 0), so have their activations, in proportion.
    """

    inputs: Mapping[int, tuple[torch.dtype, tuple[int, ...]]]
    rows: Sequence[int]
    trains: frozenset[int]

    def expected(self, stage: int, microbatch: int) -> tuple[torch.dtype, tuple[int, ...]] | None:
        """Dtype and shape of a stage's input; None where it says nothing."""
        if stage not in self.inputs:
            return None
        dtype, shape = self.inputs[stage]
        if shape and self.rows and self.rows[microbatch] != self.rows[0]:
            shape = (shape[0] * self.rows[microbatch] // self.rows[0], *shape[1:])
        return dtype, shape

    def shaped(self, buffer: Tensor, stage: int, microbatch: int) -> Tensor:
        """A buffer for a stage's input, with as many rows as its microbatch has."""
        expected = self.expected(stage, microbatch)
        return buffer if expected is None or expected[1] == buffer.shape else buffer.new_empty(expected[1])

    def check_sent(self, output: Tensor, stage: int, microbatch: int) -> None:
        """Raise ValueError for an output that is not what the next stage expects."""
        expected = self.expected(stage + 1, microbatch)
        if expected is None or expected == (output.dtype, tuple(output.shape)):
            return
        raise ValueError(
            f"stage {stage} computes {_text(output.dtype, output.shape)} for microbatch {microbatch}, and stage "
            f"{stage + 1} expects {_text(*expected)}: give stage {stage + 1} an input_like= like its "
            "input for microbatch 0; only the rows, dimension 0, may differ between microbatches"
        )

    def cut_off(self, stage: int) -> list[int]:
        """The stages before this one that train, and get no gradient where this one gives none."""
        return sorted(one for one in self.trains if one < stage)


NOTHING_KNOWN = Agreement({}, (), frozenset())


def agree(schedule: Schedule, stages: Mapping[int, Stage], *, group: dist.ProcessGroup | None) -> Agreement:
    """Tell all ranks of a group about all stages. Raises ValueError, on every rank, where a rank's do not fit."""
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
    """A stage as numbers from 1 on; 0 stands for what is not known."""
    like, trains = stage.input_like, 2 if stage.parameters() else 1
    if like is None:
        return [trains, *[0] * (WIDTH - 1)]
    sizes = [1 + size for size in like.shape]
    return [trains, 1 + DTYPES.index(like.dtype), 1 + like.dim(), *sizes, *[0] * (MOST_DIMS - like.dim())]


def _rows(stage: ModuleStage) -> list[int]:
    return [1 + len(one) if one.dim() else 0 for one in stage.inputs or ()]


def _read(rows: list[int], by_stage: list[list[int]]) -> Agreement:
    """What `_numbers_of` and `_rows` wrote, on whichever rank."""
    inputs = {
        number: (DTYPES[dtype - 1], tuple(size - 1 for size in sizes[: dims - 1]))
        for number, (_, dtype, dims, *sizes) in enumerate(by_stage)
        if dtype
    }
    trains = frozenset(number for number, numbers in enumerate(by_stage) if numbers[0] == 2)
    return Agreement(inputs, [one - 1 for one in rows] if all(rows) else [], trains)


def _check_rows(agreement: Agreement) -> None:
    """Raise ValueError where a stage's rows cannot follow those of uneven microbatches."""
    rows = agreement.rows
    for stage, (_, shape) in agreement.inputs.items() if rows and len({*rows}) > 1 else ():
        if shape and (not rows[0] or any(shape[0] * one % rows[0] for one in rows)):
            raise ValueError(
                f"microbatches of {list(rows)} rows, and stage {stage} expects {shape[0]} rows for the first: give it "
                f"an input_like= of {rows[0]} rows, or every microbatch as many rows"
            )


def _trouble(schedule: Schedule, stages: Mapping[int, Stage], rank: int, in_all: int, count: int) -> str:
    """Why this rank's stages cannot run this schedule; "" where they can."""
    own = stages_of_rank(schedule, rank)
    if missing := [stage for stage in own if stage not in stages]:
        return f"rank {rank} has slots of the stages {missing}, but no such stage: give stages[{missing[0]}]"
    for number in own:
        stage = stages[number]
        if isinstance(stage, ModuleStage) and (found := _trouble_of(stage, number, number + 1 == in_all, count)):
            return f"rank {rank}: stage {number} {found}"
    return ""


def _trouble_of(stage: ModuleStage, number: int, is_last: bool, count: int) -> str:
    if (number == 0) != (stage.inputs is not None):
        return "is the first: give it inputs=" if number == 0 else "is not the first: give it input_like=, not inputs="
    if stage.loss is not None and not is_last:
        return "has a loss, and another stage follows: give the loss to the last stage"
    if stage.input_like is not None and stage.input_like.dim() > MOST_DIMS:
        return f"expects {stage.input_like.dim()} dimensions: use {MOST_DIMS} or fewer"
    return _trouble_of_inputs(stage.inputs, count) if stage.inputs is not None else ""


def _trouble_of_inputs(inputs: Sequence[Tensor], count: int) -> str:
    if len(inputs) != count:
        return f"has {len(inputs)} microbatches, and the schedule {count}: build it for {len(inputs)}"
    for number, one in enumerate(inputs):
        if (one.dtype, one.dim(), one.shape[1:]) != (inputs[0].dtype, inputs[0].dim(), inputs[0].shape[1:]):
            return (
                f"has microbatches of {_text(inputs[0].dtype, inputs[0].shape)} and, as number {number}, of "
                f"{_text(one.dtype, one.shape)}: only the rows, dimension 0, may differ"
            )
    return ""


def _text(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{list(shape)} {str(dtype).removeprefix('torch.')}"
