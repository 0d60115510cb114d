"""A sharded optimizer: each rank keeps the optimizer states of an N-th of the weights.

This is the first half of ZeRO-1 (1910.02054, section 5.1). Gradients are already the same on every rank, as after DDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.elementwise import refuse_unsuitable
from shardlab.data_parallel.flat import EqualShards, FlatParameters, Layout
from shardlab.data_parallel.reducing import AlreadyReduced, Gradients
from shardlab.data_parallel.weights import GatheredUnits, WholeWeights
from shardlab.mesh.gradient_norm import clip_shards
from shardlab.meter.held import ModelStates, storage_bytes

Together = Callable[[list[nn.Parameter]], list[list[nn.Parameter]]]


class ShardedOptimizer:
    """`optimizer_class` over this rank's shard of the flattened parameters. Other ranks' weights are gathered.

    parameters: as for torch's optimizers, including groups with their own options. Each group and dtype has its own
    vectors of at most 25 MiB, so that few are in flight at a time. master_dtype: torch.float32 keeps a precise, sharded
    copy of low-precision weights. compute_dtype: convert the weights to this dtype for the passes and gather them in
    it; the master keeps the original dtype. offload: the optimizer works on the CPU; gradient shards are copied there
    and weight shards back. layout: `flat.WholeParameters` gives each parameter one owner, for optimizers that need
    matrices. weights, together: how weights are stored, and which parameters share a vector.
    Pass `optimizer.local` to a learning-rate scheduler. Raises ValueError on every rank if the optimizer does not suit
    the layout.
    """

    module: nn.Module  # set by `zero.wrap`, like the next two
    replicas: dist.ProcessGroup | None
    alarm: Alarm
    gradients: AlreadyReduced | Gradients

    def __init__(
        self,
        parameters: Iterable[Any],
        optimizer_class: type[torch.optim.Optimizer],
        *,
        group: dist.ProcessGroup | None = None,
        master_dtype: torch.dtype | None = None,
        compute_dtype: torch.dtype | None = None,
        offload: bool = False,
        layout: Callable[[], Layout] = EqualShards,
        weights: WholeWeights | GatheredUnits | None = None,
        together: Together | None = None,
        **options: Any,
    ) -> None:
        self.group, self.weights = group, weights or WholeWeights()
        cut, groups = layout(), _groups_of(parameters)
        if together is not None and not cut.cuts_matrices:
            raise ValueError("only Zero1 and ShardedOptimizer take a layout: buckets and units use equal shards")
        device = torch.device("cpu") if offload else groups[0]["params"][0].device
        refuse_unsuitable(optimizer_class, groups, options, device=device, cuts_matrices=cut.cuts_matrices)
        kinds = {"master_dtype": master_dtype, "compute_dtype": compute_dtype, "offload": offload}
        self.vectors: list[FlatParameters] = []
        for one in groups:
            begin = len(self.vectors)
            for some in (together or cut.together)(one["params"]):
                vector = FlatParameters(some, layout=cut, group=group, stays_whole=self.weights.stay_whole, **kinds)
                self.weights.adopt(vector)
                self.vectors.append(vector)
            one["params"] = [master for vector in self.vectors[begin:] for master in vector.masters]
        self.local = optimizer_class(groups, **options)
        self.gradients = AlreadyReduced(self.vectors)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The local optimizer's groups. Change a learning rate here."""
        return self.local.param_groups

    def step(self, closure: Callable[[], Any] | None = None, *, max_norm: float | None = None) -> Any:
        """1. get this rank's gradient shards  2. clip by the norm over all ranks  3. step  4. gather weights.

        Returns the closure's loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        if max_norm is not None:
            masters = [master for vector in self.vectors for master in vector.masters]
            gradients = [master.grad for master in masters if master.grad is not None]
            clip_shards(gradients, max_norm, device=self.vectors[0].master.device, group=self.group)
        self.update()
        return loss

    def reduce_gradients(self) -> None:
        """The first half of `step`: set the masters' gradients from this rank's shards."""
        for vector, gradient in zip(self.vectors, self.gradients.shards(), strict=True):
            if gradient is not None:
                vector.take_gradient(gradient)

    def update(self) -> None:
        """The second half of `step`: update this rank's shards, and gather the other ranks' weights."""
        if any(one["params"] for one in self.param_groups):
            self.local.step()
        self.local.zero_grad()
        self.all_gather_params()

    def all_gather_params(self) -> None:
        """Copy the masters into all weights on every rank, after a step or a load."""
        for work in self.weights.all_gather_params():
            work.wait()
        # so that a backward through a graph of the old weights raises, as after a step of torch's optimizers
        torch.autograd.graph.increment_version(self._parameters())

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self._parameters():
            parameter.grad = None
        self.gradients.forget()

    def held(self) -> ModelStates:
        """The bytes that this rank holds now. A master copy counts as optimizer state, as in the paper's 12 bytes."""
        weights = storage_bytes(self._weights())
        gradients = [one.grad for one in self._parameters() if one.grad is not None] + self.gradients.held()
        return ModelStates(weights, storage_bytes(gradients), storage_bytes(self.tensors()) - weights)

    def tensors(self) -> list[Tensor]:
        """All tensors that persist between steps on this rank."""
        states = [value for state in self.local.state.values() for value in state.values()]
        masters = [vector.master for vector in self.vectors]
        return [*self._weights(), *masters, *(state for state in states if isinstance(state, Tensor))]

    def _weights(self) -> list[Tensor]:
        return [*self._parameters(), *(vector.shard for vector in self.vectors), *self.weights.secondary()]

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for vector in self.vectors for parameter in vector.parameters]

    def gathered(self) -> AbstractContextManager[None]:
        """Inside this context, every parameter holds its whole value on every rank."""
        return self.weights.gathered()

    def full_parameters(self) -> dict[str, Tensor]:
        """A whole copy of every parameter, by name, on every rank."""
        with self.gathered():
            return {name: parameter.detach().clone() for name, parameter in self.module.named_parameters()}


def _groups_of(parameters: Iterable[Any]) -> list[dict[str, Any]]:
    """The given groups, or all parameters as one group, each parameter once. Raises ValueError if there are none."""
    given = list(parameters)
    groups = [dict(one) for one in given] if given and isinstance(given[0], dict) else [{"params": given}]
    seen: set[Tensor] = set()
    for one in groups:
        listed = [one["params"]] if isinstance(one["params"], Tensor) else list(one["params"])
        one["params"] = [p for p in dict.fromkeys(listed) if p.requires_grad and p not in seen]
        seen.update(one["params"])
    groups = [one for one in groups if one["params"]]
    if not groups:
        raise ValueError("there is no parameter to optimize: give at least one with requires_grad")
    return groups
