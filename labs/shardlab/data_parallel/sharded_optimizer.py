"""An optimizer of which every rank keeps a slice: the states of an N-th of the weights, nothing of the others.

The first half of ZeRO-1 (1910.02054, section 5.1). The gradients are the same on every rank already, as after DDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.buckets import in_messages
from shardlab.data_parallel.clipping import clip_shards
from shardlab.data_parallel.elementwise import refuse_unshardable, refuse_what_needs_matrices
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.whole import WholeParameters
from shardlab.meter.held import Held, storage_bytes


class ShardedOptimizer:
    """`optimizer_class` over this rank's slice of the parameters, laid end to end; the others' weights are gathered.

    parameters: as torch's optimizers take them, groups with options of their own included; each group and dtype has
    vectors of its own, of 25 MiB at most: whoever reduces them holds few at a time.
    master_dtype: torch.float32 keeps a precise copy of low-precision weights, sharded as well.
    compute_dtype: turn the weights into this type for the passes, and gather them so; the master keeps what they were.
    offload: the optimizer works on the CPU; gradients' slices go there and weights' slices come back.
    layout: `whole.WholeParameters` gives each parameter one owner, for optimizers that look at matrices.
    A learning-rate scheduler takes `optimizer.local`. Raises ValueError, on every rank, for an optimizer that does not
    suit the layout.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        optimizer_class: type[torch.optim.Optimizer],
        *,
        group: dist.ProcessGroup | None = None,
        master_dtype: torch.dtype | None = None,
        compute_dtype: torch.dtype | None = None,
        offload: bool = False,
        layout: type[FlatParameters] = FlatParameters,
        **options: Any,
    ) -> None:
        refuse_unshardable(optimizer_class)
        self.group, self._layout = group, layout
        groups = _groups_of(parameters)
        if not issubclass(layout, WholeParameters):
            device = torch.device("cpu") if offload else groups[0]["params"][0].device
            refuse_what_needs_matrices(optimizer_class, options | _options_of(groups[0]), device)
        self._vector_options = {"master_dtype": master_dtype, "compute_dtype": compute_dtype, "offload": offload}
        self.vectors: list[FlatParameters] = []
        local_groups = []
        for one in groups:
            vectors = [self._lay_out(some) for some in self._by_vector(one.pop("params"))]
            self.vectors += vectors
            candidates = [candidate for vector in vectors for candidate in vector.candidates()]
            local_groups.append(one | {"params": candidates})
        self.local = optimizer_class(local_groups, **options)
        self._keep_own()

    def _keep_own(self) -> None:
        """Drop from the optimizer what other ranks own, and what state it has begun for it."""
        own = {master for vector in self.vectors for master in vector.masters}
        for one in self.local.param_groups:
            one["params"] = [parameter for parameter in one["params"] if parameter in own]
        for parameter in [parameter for parameter in self.local.state if parameter not in own]:
            del self.local.state[parameter]

    def _by_vector(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        """Which parameters share a vector: of one dtype, and as many as a message should hold.

        Owners of whole parameters are chosen among all of them, so that their shares are even.
        """
        by_kind: dict[Any, list[nn.Parameter]] = {}
        for parameter in parameters:
            by_kind.setdefault((parameter.dtype, parameter.device), []).append(parameter)
        if issubclass(self._layout, WholeParameters):
            return list(by_kind.values())
        return [some for all_of_kind in by_kind.values() for some in in_messages(all_of_kind)]

    def _lay_out(self, parameters: list[nn.Parameter]) -> FlatParameters:
        return self._layout(parameters, group=self.group, **self._vector_options)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The local optimizer's groups: change a learning rate here."""
        return self.local.param_groups

    def step(self, closure: Callable[[], Any] | None = None, *, max_norm: float | None = None) -> Any:
        """1. gradients of this rank's slices  2. clip by the norm of all ranks' together  3. step  4. gather weights.

        Returns the closure's loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        if max_norm is not None:
            clip_shards(self._master_gradients(), max_norm, group=self.group)
        self.update()
        return loss

    def reduce_gradients(self) -> None:
        """The first half of `step`: the masters get the gradients of this rank's slices."""
        for vector, gradient in zip(self.vectors, self._shard_gradients(), strict=True):
            vector.take_gradient(gradient)

    def update(self) -> None:
        """The second half: update this rank's slices by the masters' gradients, and gather the others' weights."""
        if any(one["params"] for one in self.param_groups):
            self.local.step()
        for vector in self.vectors:
            vector.take_gradient(None)
        self.spread()
        self._has_stepped()

    def _has_stepped(self) -> None:
        """The weights are new; ZeRO-3 now checks that nobody holds the old ones."""

    def spread(self) -> None:
        """Every rank gets all weights from the masters: after a step, or after a load."""
        for work in [work for vector in self.vectors for work in vector.spread()]:
            work.wait()
        # so that a backward through a graph of the old weights raises, as it does after a step of torch's optimizers
        torch.autograd.graph.increment_version([one for vector in self.vectors for one in vector.parameters])

    @torch.no_grad()
    def _shard_gradients(self) -> Sequence[Tensor | None]:
        """This rank's slice of each vector's gradients, which are the same on every rank."""
        return [vector.own_slice(vector.gradient()) for vector in self.vectors]

    def _master_gradients(self) -> list[Tensor]:
        """What this rank's optimizer sees, and an empty tensor of each vector's type: a rank may own nothing."""
        found = [master.grad for vector in self.vectors for master in vector.masters if master.grad is not None]
        return [*found, *(vector.master.detach()[:0] for vector in self.vectors)]

    def held(self) -> Held:
        """Bytes that this rank holds now. A master copy counts as optimizer state, as in the paper's 12 bytes."""
        weights, states = self._weights(), self._states()
        kept = storage_bytes(weights)
        with_masters = storage_bytes([*weights, *(vector.master for vector in self.vectors)])
        return Held(kept, storage_bytes(self._held_gradients()), storage_bytes(states) + with_masters - kept)

    def _weights(self) -> list[Tensor]:
        return [tensor for vector in self.vectors for tensor in (*vector.parameters, *vector.kept)]

    def _states(self) -> list[Tensor]:
        return [value for state in self.local.state.values() for value in state.values() if isinstance(value, Tensor)]

    def tensors(self) -> list[Tensor]:
        """Everything that lives from step to step on this rank."""
        return [*self._weights(), *(vector.master for vector in self.vectors), *self._states()]

    def _held_gradients(self) -> list[Tensor]:
        return [p.grad for vector in self.vectors for p in vector.parameters if p.grad is not None]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for vector in self.vectors:
            for parameter in vector.parameters:
                parameter.grad = None


def _options_of(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _groups_of(parameters: Iterable[Any]) -> list[dict[str, Any]]:
    """Parameters as one group, or groups as they are; each parameter once. Raises ValueError for none."""
    given = list(parameters)
    groups = [dict(one) for one in given] if given and isinstance(given[0], dict) else [{"params": given}]
    seen: set[Tensor] = set()
    for one in groups:
        listed = [one["params"]] if isinstance(one["params"], Tensor) else list(one["params"])
        one["params"] = [p for p in dict.fromkeys(listed) if p.requires_grad and p not in seen]
        seen.update(one["params"])
    groups = [one for one in groups if one["params"]]
    if not groups:
        raise ValueError("there is no parameter to optimise: give at least one with requires_grad")
    return groups
