"""Where weights are stored between uses: whole on every rank (ZeRO-1 and 2), or in shards that are gathered (ZeRO-3).

A *unit* of ZeRO-3 (1910.02054, section 5.3; PyTorch FSDP, 2304.11277) is a part of the model whose weights are gathered
together. To follow a backward, note that this file gathers and frees weights, `Arrivals` in `buckets.py` collects
gradients, and `reducing.py` sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.flat import FlatParameters, Gather, GatheredVector, Works
from shardlab.data_parallel.gather_order import GatherOrder
from shardlab.data_parallel.reducing import Gradients


class WholeWeights:
    """Every rank always has all weights. `secondary`: additional shards held. `has_left`: a vector was sent."""

    stay_whole = True

    def __init__(self) -> None:
        self._vectors: list[FlatParameters] = []

    def adopt(self, vector: FlatParameters) -> None:
        self._vectors.append(vector)

    def all_gather_params(self) -> Works:
        for vector in self._vectors:
            vector.refresh_shard()
        return [work for vector in self._vectors for work in vector.layout.all_gather_params(vector)]

    def secondary(self) -> list[Tensor]:
        return []

    def gathered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def before_forward(self, gradients: Gradients) -> None:
        """Raise the alarm if the model was changed, since it cannot send the gradients that other ranks wait for."""
        if torch.is_grad_enabled() and (change := gradients.change()):
            gradients.raise_alarm(change)

    def has_left(self, number: int) -> None: ...
    def end_backward(self, *, has_raised: bool) -> None: ...


class GatheredUnits:
    """Weights are gathered unit by unit, `prefetch` units ahead, and freed after each use, if `reshard`.

    Parameters in no unit or in several are gathered for the whole step: their unit is the model.
    """

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
        """Nothing yet: the old weights are freed, so the next forward gathers the new shards."""
        for vector in self.vectors:
            vector.free()
            vector.secondary = None
            vector.flat.refresh_shard()
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
            _free(self.vectors)

    def connect(self, gradients: Gradients, group: dist.ProcessGroup | None) -> None:
        """Register the hooks, once all vectors exist. gradients: knows which vectors were sent in a backward."""
        self._gradients, self._arrivals = gradients, gradients.arrivals
        self._accumulators = {one: backward.accumulator(one) for one in self._arrivals.bucket_of}
        name_of = {one: name or "the parameters in no unit" for name, one in self._module.named_modules()}
        self.gathers = GatherOrder([name_of[self._unit_of[one.flat.parameters[0]]] for one in self.vectors], group)
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

    def before_forward(self, gradients: Gradients) -> None:
        """Use the first gather of a step to carry the alarm, since a rank with a changed model could not continue."""
        first = self.vectors[-1]
        if not torch.is_grad_enabled() or first.is_there or not gradients.alarm.is_on:
            return
        change = gradients.change()
        self.gathers.record(first.number)
        first.gather(alarm=change is not None)
        first.wait()
        if not all(head.isfinite().all() for head in first.flat.slice_heads(first.flat.full)):
            first.free()
            gradients.raise_alarm(change)

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
            _free(self._vectors_of[unit])

    def _watch(self, unit: nn.Module, part: nn.Module, _: Any, output: Any) -> None:
        """Hook the outputs of a part of the unit, because a backward that enters there needs the unit's weights."""
        if not backward.is_running():  # recomputed outputs already have hooks
            for tensor in backward.entrances(output):
                node, first = backward.node_of(tensor), self._began.get(unit, 0)
                tensor.register_hook(partial(self._before_backward, unit, node, first))

    def _end_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        if not backward.is_running():
            self._knows_order = True
            if not torch.is_grad_enabled():
                _free(self.vectors)
            self.gathers.end_pass()

    def _before_backward(self, unit: nn.Module, node: int, first: int, _: Tensor) -> None:
        self._arrivals.begin()
        self._complete_passed(node)
        self._entered[unit] = first
        self._gather(self._due(unit))
        self._gather_ahead(unit, -1)

    @torch.no_grad()
    def _complete_passed(self, node: int) -> None:
        """Send the units that the backward, which visits nodes from last to first, has passed: their first node has a
        higher number than `node`. Parameters that it does not reach get zeros, so that every rank sends a unit before
        the next gather, no matter which branch it took inside.
        """
        for unit in [unit for unit, first in self._entered.items() if first > node]:
            buckets = [self._arrivals.buckets[vector.number] for vector in self._vectors_of[unit]]
            nodes = self._accumulators
            unreached = [(bucket, p) for bucket in buckets for p in bucket.waiting if not backward.reaches(nodes[p])]
            if unreached and (self._arrivals.has_arrived or any(map(backward.reaches, nodes.values()))):
                for bucket, parameter in unreached:
                    bucket.take(parameter)
                self._arrivals.send_full()
            if not any(bucket.waiting for bucket in buckets):
                del self._entered[unit]

    def has_left(self, number: int) -> None:
        """The gradients of a vector are complete, so its weights are not needed again in this step."""
        self.vectors[number].free()

    def end_backward(self, *, has_raised: bool) -> None:
        self._entered, self._first_began = {}, {}
        if has_raised:
            self.gathers.forget()
        else:
            _free(self.vectors)
            self.gathers.end_pass()

    def _start(self, vectors: Iterable[GatheredVector]) -> None:
        for vector in vectors:
            if not vector.is_there:
                self.gathers.record(vector.number)
            vector.gather()

    def _gather(self, vectors: Sequence[GatheredVector]) -> None:
        self._start(vectors)
        for vector in vectors:
            vector.wait()

    def _gather_ahead(self, unit: nn.Module, direction: int) -> None:
        """Start gathering the units after (+1) or before (-1) this one in the order of the first forward.

        Units that it did not use, such as those in another branch, are gathered only when they are used.
        """
        if self._knows_order and unit in self._order:
            order = self._order[::direction]
            place = order.index(unit) + 1
            for ahead in order[place : place + self._prefetch]:
                self._start(self._due(ahead))

    def _due(self, unit: nn.Module) -> list[GatheredVector]:
        """A unit's vectors whose gradients were not yet sent. A hook that fires late must not gather the others."""
        return [vector for vector in self._vectors_of[unit] if vector.number >= self._arrivals.num_sent]

    def _before_state_dict(self, *_: Any) -> None:
        if not all(vector.is_there for vector in self.vectors):
            remedy = "on every rank, call full_parameters(), or state_dict() inside gathered()"
            raise ValueError(f"the weights are sharded over all ranks: {remedy}")


def _free(vectors: Iterable[GatheredVector]) -> None:
    for vector in vectors:
        vector.free()


def _refuse_to_move(*_: Any, **__: Any) -> nn.Module:
    remedy = "do that first, then wrap the model, or wrap it with compute_dtype="
    raise ValueError(f"the weights are sharded and cannot be moved or converted: {remedy}")


def owners_of(module: nn.Module, units: Sequence[nn.Module]) -> dict[nn.Parameter, nn.Module]:
    """The unit of each parameter, or the whole model for parameters in no unit or in several.

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
        unit = unit_of.get(part, module)
        owners |= {one: module if owners.get(one, unit) is not unit else unit for one in part.parameters(recurse=False)}
    return owners
