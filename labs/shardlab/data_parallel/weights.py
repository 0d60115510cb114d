"""ZeRO-3 (1910.02054, section 5.3; PyTorch FSDP, 2304.11277): gather a layer's weights, use them, free them.

A *unit* is a part of the model whose weights are gathered together. Forward and backward gather each unit once, and the
gradients are reduce-scattered: 3(N-1)/N of the model is sent. To follow a backward, note that this file gathers and
frees weights, `reducing.py` sends gradients, and `gathered.py` manages the memory of one vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import trainable
from shardlab.data_parallel.flat import FlatParameters, Works
from shardlab.data_parallel.gather_order import GatherOrder
from shardlab.data_parallel.gathered import Gather, GatheredVector, gather_plain
from shardlab.data_parallel.reducing import InBackward, Reducer
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero1 import wrap


def Zero3(
    module: nn.Module,
    optimizer_class: type[torch.optim.Optimizer],
    *,
    units: Sequence[nn.Module],
    prefetch: int = 1,
    reshard_after_forward: bool = True,
    gradient_dtype: torch.dtype | None = None,
    gather: Gather = gather_plain,
    bucket_bytes: int | None = None,
    first_bucket_bytes: int | None = None,
    **options: Any,
) -> ShardedOptimizer:
    """Like `Zero2`, but the weights are sharded too, and gathered unit by unit for each use.

    units: modules of the model, none inside another. Parameters in no unit or in two (a tied weight) are gathered for
    the whole step. Each unit is a bucket, regardless of bucket_bytes. prefetch: how many units to gather ahead.
    reshard_after_forward: False keeps the weights for the backward, which sends 2(N-1)/N. gather: how weights are sent.
    Raises ValueError for units that are nested or not part of this model, and on every rank if ranks use their units in
    different orders.
    """
    weights = GatheredUnits(module, units, prefetch=prefetch, reshard=reshard_after_forward, gather=gather)
    zero, reducer = wrap(module, optimizer_class, weights=weights, together=weights.together, **options)
    zero.gradients = gradients = InBackward(reducer, weights, dtype=gradient_dtype)
    weights.connect(gradients, zero.group)
    return zero


class GatheredUnits:
    """Weights are gathered unit by unit, `prefetch` units ahead, and freed after each use."""

    stay_whole = False

    def __init__(
        self, module: nn.Module, units: Sequence[nn.Module], *, prefetch: int, reshard: bool, gather: Gather
    ) -> None:
        self._module, self._units, self._prefetch, self._reshard = module, units, prefetch, reshard
        self._start_gather, self._unit_of = gather, owners_of(module, units)
        self.vectors: list[GatheredVector] = []
        self._vectors_of: dict[nn.Module, list[GatheredVector]] = {one: [] for one in (*units, module)}
        self._order: list[nn.Module] = []  # units in the order of the first forward
        self._knows_order = False
        self._began: dict[nn.Module, int] = {module: 0}  # the number of the first node of a unit's last forward
        self._first_began: dict[nn.Module, int] = {}  # the same for its first forward since the last backward
        self._entered: dict[nn.Module, int] = {}  # units that this backward has entered, and their first nodes

    # ---- called by the optimizer -------------------------------------------------------------------------------------

    def together(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        """One vector per unit and dtype, in the order of the backward (last unit first), then the rest."""
        by_unit: dict[Any, list[nn.Parameter]] = {}
        for parameter in reversed(parameters):
            by_unit.setdefault((self._unit_of[parameter], parameter.dtype), []).append(parameter)
        return [by_unit[key] for key in sorted(by_unit, key=lambda key: key[0] is self._module)]

    def adopt(self, vector: FlatParameters) -> None:
        self.vectors.append(GatheredVector(vector, self._start_gather, number=len(self.vectors)))
        self._vectors_of[self._unit_of[vector.parameters[0]]].append(self.vectors[-1])

    def all_gather_params(self) -> Works:
        for vector in self.vectors:
            vector.use_new_shard()
        return []

    def secondary(self) -> list[Tensor]:
        return [vector.secondary for vector in self.vectors if vector.secondary is not None]

    @contextmanager
    def gathered(self) -> Iterator[None]:
        for vector in self.vectors:
            vector.gather()
            vector.wait()
        try:
            yield
        finally:
            self._free(self.vectors)

    # ---- hooks: 1. before and after each forward ---------------------------------------------------------------------

    def connect(self, gradients: InBackward, group: dist.ProcessGroup | None) -> None:
        """Register the hooks, once all vectors exist. gradients: knows which vectors were sent in a backward."""
        self._gradients = gradients
        self._accumulators = {parameter: backward.accumulator(parameter) for parameter in gradients.bucket_of}
        name_of = {one: name or "the parameters in no unit" for name, one in self._module.named_modules()}
        names = [name_of[self._unit_of[vector.flat.parameters[0]]] for vector in self.vectors]
        self.gathers = GatherOrder(names, group)
        for unit in self._units:
            unit.register_forward_pre_hook(self._before_forward)
            unit.register_forward_hook(self._after_forward)
            for part in unit.modules():
                if part is unit or next(part.parameters(recurse=False), None) is not None:
                    part.register_forward_hook(partial(self._watch, unit))
        self._module.register_forward_pre_hook(lambda *_: self._gather(self._vectors_of[self._module]))
        self._module.register_forward_hook(partial(self._watch, self._module))
        self._module.register_forward_hook(self._end_forward)
        self._module.register_state_dict_pre_hook(self._before_state_dict)
        for part in self._module.modules():
            part._apply = _refuse_to_move  # it would read freed memory

    def before_forward(self, reducer: Reducer) -> None:
        """Use the first gather of a step to carry the alarm, since a rank with a changed model could not continue."""
        first = self.vectors[-1]
        if not torch.is_grad_enabled() or first.is_there or not reducer.alarm.is_on:
            return
        change = reducer.change()
        self._gather([first], alarm=change is not None)
        if not all(head.isfinite().all() for head in first.flat.slice_heads(first.flat.full)):
            first.free()
            reducer.raise_alarm(change)

    def _before_forward(self, unit: nn.Module, _: Any) -> None:
        if backward.is_running():  # a recomputation, which reads the weights even if their gradients were sent
            node = backward.current_node()
            self._complete_passed(node)
            self._entered.setdefault(unit, min(node, self._first_began.get(unit, node)))  # no output was watched
            self._gather(self._vectors_of[unit])
            return
        self._gradients.forget_one_that_raised()
        if not self._knows_order and unit not in self._order:
            self._order.append(unit)
        self._began[unit] = backward.next_node()
        self._first_began.setdefault(unit, self._began[unit])
        self._gather(self._vectors_of[unit])
        self._gather_ahead(unit, +1)

    def _after_forward(self, unit: nn.Module, _: Any, output: Any) -> None:
        if not backward.is_running() and (self._reshard or not torch.is_grad_enabled()):
            self._free(self._vectors_of[unit])

    def _watch(self, unit: nn.Module, part: nn.Module, _: Any, output: Any) -> None:
        """Hook the outputs of a part of the unit, because a backward that enters there needs the unit's weights."""
        if not backward.is_running():  # recomputed outputs already have hooks
            for tensor in backward.entrances(output):
                node, first = backward.node_of(tensor), self._began.get(unit, 0)
                tensor.register_hook(lambda _, node=node, first=first: self._before_backward(unit, node, first))

    def _end_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        if not backward.is_running():
            self._knows_order = True
            if not torch.is_grad_enabled():
                self._free(self.vectors)
            self.gathers.end_pass()

    # ---- hooks: 2. in the backward -----------------------------------------------------------------------------------

    def _before_backward(self, unit: nn.Module, node: int, first: int) -> None:
        self._gradients.begin()
        self._complete_passed(node)
        self._entered[unit] = first
        self._gather(self._due(unit))
        self._gather_ahead(unit, -1)

    @torch.no_grad()
    def _complete_passed(self, node: int) -> None:
        """Finish the units that the backward has passed. It visits nodes from last to first, so these are the units
        whose first node has a higher number than `node`.

        Parameters of such a unit that the backward does not reach get zeros. Every rank therefore sends a unit's
        gradients before the next gather, no matter which branch it took inside the unit.
        """
        for unit in [unit for unit, first in self._entered.items() if first > node]:
            buckets = [self._gradients.buckets[vector.number] for vector in self._vectors_of[unit]]
            unreached = [(bucket, p) for bucket in buckets for p in bucket.waiting if not self._reaches(p)]
            if unreached and (self._gradients.has_arrived or any(map(self._reaches, self._accumulators))):
                for bucket, parameter in unreached:
                    bucket.take(parameter)
                self._gradients.send_full_buckets()
            if not any(bucket.waiting for bucket in buckets):
                del self._entered[unit]

    def _reaches(self, parameter: nn.Parameter) -> bool:
        return backward.reaches(self._accumulators[parameter])

    def has_left(self, number: int) -> None:
        """The gradients of a vector are complete, so its weights are not needed again in this step."""
        self.vectors[number].free()

    def backward_ended(self) -> None:
        self._entered, self._first_began = {}, {}
        self._free(self.vectors)
        self.gathers.end_pass()

    def forget_backward(self) -> None:
        self._entered, self._first_began = {}, {}
        self.gathers.forget()

    # ---- gather and free ---------------------------------------------------------------------------------------------

    def _start(self, vectors: Sequence[GatheredVector], *, alarm: bool = False) -> None:
        for vector in vectors:
            if not vector.is_there:
                self.gathers.record(vector.number)
            vector.gather(alarm=alarm)

    def _gather(self, vectors: Sequence[GatheredVector], *, alarm: bool = False) -> None:
        self._start(vectors, alarm=alarm)
        for vector in vectors:
            vector.wait()

    def _gather_ahead(self, unit: nn.Module, direction: int) -> None:
        """Start gathering the units that came next (+1) or before (-1) in the order of the first forward.

        A unit that the first forward did not use, such as one in another branch, is not in that order. The units after
        it are gathered only when they are used.
        """
        if not self._knows_order or unit not in self._order:
            return
        place = self._order.index(unit)
        for ahead in range(1, self._prefetch + 1):
            if 0 <= place + direction * ahead < len(self._order):
                self._start(self._due(self._order[place + direction * ahead]))

    def _due(self, unit: nn.Module) -> list[GatheredVector]:
        """A unit's vectors whose gradients were not yet sent. A hook that fires late must not gather the others."""
        return [vector for vector in self._vectors_of[unit] if vector.number >= self._gradients.num_sent]

    def _free(self, vectors: Sequence[GatheredVector]) -> None:
        for vector in vectors:
            vector.free()

    def _before_state_dict(self, *_: Any) -> None:
        if not all(vector.is_there for vector in self.vectors):
            raise ValueError(
                "the weights are sharded over all ranks: on every rank, call full_parameters(), or state_dict() inside "
                "gathered()"
            )


def _refuse_to_move(*_: Any, **__: Any) -> nn.Module:
    raise ValueError(
        "the weights are sharded and cannot be moved or converted: do that first, then wrap the "
        "model, or wrap it with compute_dtype="
    )


def owners_of(module: nn.Module, units: Sequence[nn.Module]) -> dict[nn.Parameter, nn.Module]:
    """The unit of each trainable parameter, or the whole model for parameters in no unit or in several.

    Raises ValueError for units that are nested or not part of the model.
    """
    unit_of: dict[nn.Module, nn.Module] = {}
    for unit in units:
        name, parts = type(unit).__name__, set(unit.modules())
        if unit is module or unit not in module.modules():
            raise ValueError(f"a {name} is not part of the model: give modules inside it as units")
        if any(other in parts for other in units if other is not unit):
            raise ValueError(f"a {name} contains another unit: units must not be nested")
        unit_of |= {part: module if part in unit_of else unit for part in parts}
    owners: dict[nn.Parameter, nn.Module] = {}
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            unit = unit_of.get(part, module)
            owners[parameter] = unit if owners.get(parameter, unit) is unit else module
    return {parameter: owners[parameter] for _, parameter in trainable(module)}
