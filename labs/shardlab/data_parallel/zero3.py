"""ZeRO-3 (1910.02054, section 5.3; PyTorch FSDP, 2304.11277): gather a layer's weights, use them, free them.

A *unit* is a part of the model whose weights are gathered together. Only units at work exist in full on a rank.
Forward and backward gather each unit once, and the gradients are reduce-scattered: 3(N-1)/N of the model is sent.
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
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.gather_order import GatherOrder
from shardlab.data_parallel.gathered import GatheredParameters
from shardlab.data_parallel.zero2 import Zero2


class Zero3(Zero2):
    """As `Zero2`, but the weights, too, are cut, and gathered unit by unit while they are used.

    units: modules of the model, none inside another; what is in none of them, or in two (a tied weight), is gathered
    for the whole step. prefetch: how many units are gathered ahead. reshard_after_forward: False keeps the weights for
    the backward: 2(N-1)/N are sent, and nothing is saved between. Raises ValueError for units that are nested or not
    of this model, and, on every rank alike, where ranks have used their units in different orders.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        units: Sequence[nn.Module],
        prefetch: int = 1,
        reshard_after_forward: bool = True,
        **options: Any,
    ) -> None:
        self.prefetch, self.reshard_after_forward = prefetch, reshard_after_forward
        self._unit_of = _owners(module, units)
        super().__init__(module, optimizer_class, **options)
        self._vectors_of: dict[nn.Module, list[GatheredParameters]] = {one: [] for one in (*units, module)}
        self._accumulators = {parameter: backward.accumulator(parameter) for parameter in self._number_of}
        for vector in self.vectors:
            assert isinstance(vector, GatheredParameters)
            self._vectors_of[self._unit_of[vector.parameters[0]]].append(vector)
        self._gathers = GatherOrder([self._name_of(vector) for vector in self.vectors], self.group)
        self._place_of = {vector: number for number, vector in enumerate(self.vectors)}
        self._order: list[nn.Module] = []  # in which the units of the first forward began
        self._knows_order = False
        self._began: dict[nn.Module, int] = {module: 0}  # the number of the first node of a unit's last forward
        self._first_began: dict[nn.Module, int] = {}  # and of its first forward since the last backward
        self._entered: dict[nn.Module, int] = {}  # units that this backward has entered, and their first nodes
        for unit in units:
            unit.register_forward_pre_hook(self._before_forward)
            unit.register_forward_hook(self._after_forward)
            for part in unit.modules():
                if part is unit or next(part.parameters(recurse=False), None) is not None:
                    part.register_forward_hook(partial(self._watch, unit))
        module.register_forward_pre_hook(lambda *_: self._gather(self._vectors_of[self.module]))
        module.register_forward_hook(partial(self._watch, module))
        module.register_forward_hook(self._end_forward)
        module.register_state_dict_pre_hook(self._before_state_dict)
        for part in module.modules():
            part._apply = _refuse_to_move  # type: ignore[method-assign] - it would read freed memory

    # ---- how the parameters are laid out -----------------------------------------------------------------------------

    def _by_vector(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        """One vector per unit and dtype, the last unit first, as the backward finishes them; the rest at the end."""
        by_unit: dict[Any, list[nn.Parameter]] = {}
        for parameter in reversed(parameters):
            by_unit.setdefault((self._unit_of[parameter], parameter.dtype), []).append(parameter)
        rest = [key for key in by_unit if key[0] is self.module]
        return [by_unit[key] for key in by_unit if key not in rest] + [by_unit[key] for key in rest]

    def _lay_out(self, parameters: list[nn.Parameter]) -> FlatParameters:
        return GatheredParameters(parameters, group=self.group, **self._vector_options)

    # ---- when they are gathered and freed ----------------------------------------------------------------------------

    def _start_gather(self, vectors: Sequence[GatheredParameters]) -> None:
        for vector in vectors:
            if not vector.is_there:
                self._gathers.record(self._place_of[vector])
            vector.gather()

    def _gather(self, vectors: Sequence[GatheredParameters]) -> None:
        self._start_gather(vectors)
        for vector in vectors:
            vector.wait()

    def _due(self, unit: nn.Module) -> list[GatheredParameters]:
        """A unit's vectors without those whose gradients have left: a hook that fires late must not gather these."""
        return [vector for vector in self._vectors_of[unit] if self._place_of[vector] >= self._num_sent]

    def _name_of(self, vector: FlatParameters) -> str:
        unit = self._unit_of[vector.parameters[0]]
        name = next(name for name, one in self.module.named_modules() if one is unit)
        return name or "what lies in no unit"

    def _free(self, unit: nn.Module) -> None:
        for vector in self._vectors_of[unit]:
            vector.free()

    def _gather_ahead(self, unit: nn.Module, direction: int) -> None:
        """Start gathering the units that came next in the first forward, forward (+1) or backward (-1).

        A unit that it did not use, say of another branch, has no place in its order: what comes next is gathered then.
        """
        if not self._knows_order or unit not in self._order:
            return
        place = self._order.index(unit)
        for ahead in range(1, self.prefetch + 1):
            if 0 <= place + direction * ahead < len(self._order):
                self._start_gather(self._due(self._order[place + direction * ahead]))

    def _before_all(self, module: nn.Module, _: Any) -> None:
        """The first gather of a step carries the alarm: a rank whose model was changed could not follow the others."""
        if backward.is_running():
            return
        self._forget_one_that_raised()
        first = self.vectors[-1]
        assert isinstance(first, GatheredParameters)
        if not torch.is_grad_enabled() or first.is_there or not self.alarm.is_on:
            return
        change = self._snapshot.change(self._homes)
        self._gathers.record(self._place_of[first])
        first.gather(alarm=change is not None)
        first.wait()
        if not first.heads(first.full)[0].isfinite().all():
            self._free(self._unit_of[first.parameters[0]])
            self._ring(change)

    def _before_forward(self, unit: nn.Module, _: Any) -> None:
        if backward.is_running():  # a recomputation, which reads the weights even if their gradients have left
            node = backward.current_node()
            self._complete_passed(node)
            self._entered.setdefault(unit, min(node, self._first_began.get(unit, node)))  # no output was watched
            self._gather(self._vectors_of[unit])
            return
        self._forget_one_that_raised()
        if not self._knows_order and unit not in self._order:
            self._order.append(unit)
        self._began[unit] = backward.next_node()
        self._first_began.setdefault(unit, self._began[unit])
        self._gather(self._vectors_of[unit])
        self._gather_ahead(unit, +1)

    def _after_forward(self, unit: nn.Module, _: Any, output: Any) -> None:
        if not backward.is_running() and (self.reshard_after_forward or not torch.is_grad_enabled()):
            self._free(unit)

    def _watch(self, unit: nn.Module, part: nn.Module, _: Any, output: Any) -> None:
        """A backward needs the unit's weights from where it enters this part of it."""
        if not backward.is_running():  # what is recomputed has its hooks already
            for tensor in backward.entrances(output):
                node, first = backward.node_of(tensor), self._began.get(unit, 0)
                tensor.register_hook(lambda _, node=node, first=first: self._before_backward(unit, node, first))

    def _before_backward(self, unit: nn.Module, node: int, first: int) -> None:
        self._begin_backward()
        self._complete_passed(node)
        self._entered[unit] = first
        self._gather(self._due(unit))
        self._gather_ahead(unit, -1)

    @torch.no_grad()
    def _complete_passed(self, node: int) -> None:
        """A backward takes a graph's nodes from the last to the first: units whose first node is a later one are done.

        Their parameters that it does not reach get zeros. So every rank sends a unit's gradients before the next
        gather, no matter which branch it took inside the unit.
        """
        for unit in [unit for unit, first in self._entered.items() if first > node]:
            buckets = [self.buckets[self._place_of[vector]] for vector in self._vectors_of[unit]]
            unreached = [p for bucket in buckets for p in bucket.waiting if not self._reaches(p)]
            if unreached and (self._has_arrived or any(map(self._reaches, self._accumulators))):
                for parameter in unreached:
                    self.buckets[self._number_of[parameter]].take(parameter)
                self._send_full_buckets()
            if not any(bucket.waiting for bucket in buckets):
                del self._entered[unit]

    def _reaches(self, parameter: nn.Parameter) -> bool:
        return backward.reaches(self._accumulators[parameter])

    def _end_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        if backward.is_running():
            return
        self._knows_order = True
        if not torch.is_grad_enabled():
            for unit in self._vectors_of:
                self._free(unit)
        self._gathers.end_pass()

    def _has_ended(self) -> None:
        """All gradients of a backward have arrived."""
        self._entered.clear()
        self._first_began.clear()
        for unit in self._vectors_of:
            self._free(unit)
        self._gathers.end_pass()

    def _forget_one_that_raised(self) -> None:
        if self._is_in_backward:
            self._forget_backward()

    def _forget_backward(self) -> None:
        super()._forget_backward()
        self._gathers.forget()
        self._entered.clear()
        self._first_began.clear()

    def _has_stepped(self) -> None:
        """Nothing may be gathered when a step ends: the next forward would use the old weights."""
        names = [self._name_of(one) for one in self.vectors if isinstance(one, GatheredParameters) and one.is_there]
        if names:
            raise AssertionError(
                f"rank {dist.get_rank()}: {', '.join(names)} still gathered after a step: the next forward would use "
                "old weights. This is a bug in ZeRO-3, not in your model: stop this training and report it"
            )

    def _has_left(self, number: int) -> None:
        """The gradients of a vector are complete: its weights have done their work in this step."""
        vector = self.vectors[number]
        assert isinstance(vector, GatheredParameters)
        vector.free()

    def _before_state_dict(self, *_: Any) -> None:
        if not all(isinstance(vector, GatheredParameters) and vector.is_there for vector in self.vectors):
            raise ValueError(
                "the weights lie in slices on all ranks: call full_parameters(), or state_dict() inside gathered(), "
                "on every rank"
            )

    # ---- looking at the whole ----------------------------------------------------------------------------------------

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Inside, every parameter of the model holds its whole value on every rank."""
        for vector in self.vectors:
            assert isinstance(vector, GatheredParameters)
            vector.gather()
            vector.wait()
        try:
            yield
        finally:
            for unit in self._vectors_of:
                self._free(unit)

    def full_parameters(self) -> dict[str, Tensor]:
        """A copy of all parameters by name, whole, on every rank."""
        with self.gathered():
            return {name: parameter.detach().clone() for name, parameter in self.module.named_parameters()}


def _refuse_to_move(*_: Any, **__: Any) -> nn.Module:
    raise ValueError(
        "the weights lie in slices, and cannot be moved or turned into another type: do that first, then wrap the "
        "model, or wrap it with compute_dtype="
    )


def _owners(module: nn.Module, units: Sequence[nn.Module]) -> dict[nn.Parameter, nn.Module]:
    """The unit that gathers each parameter: the one that has it, or the whole model for one in none or several."""
    inside = set(module.modules())
    for unit in units:
        if unit not in inside or unit is module:
            raise ValueError(
                f"a {type(unit).__name__} is not part of the model: give modules that lie inside it as units"
            )
        if any(other in set(unit.modules()) for other in units if other is not unit):
            raise ValueError(
                f"a {type(unit).__name__} has another unit inside: give units side by side, one level deep"
            )
    owners: dict[nn.Parameter, nn.Module] = {}
    for _, parameter in trainable(module):
        having = [unit for unit in units if any(parameter is own for own in unit.parameters())]
        owners[parameter] = having[0] if len(having) == 1 and not _lies_outside(parameter, module, units) else module
    return owners


def _lies_outside(parameter: nn.Parameter, module: nn.Module, units: Sequence[nn.Module]) -> bool:
    """Whether some module that is part of no unit uses this parameter as well."""
    within = {part for unit in units for part in unit.modules()}
    return any(
        parameter is own for part in module.modules() if part not in within for own in part.parameters(recurse=False)
    )
