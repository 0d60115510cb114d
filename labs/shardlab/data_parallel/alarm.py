"""An alarm that sends no extra bytes: NaN survives every sum, so the reduce itself carries one rank's trouble to all.

Trouble is a gradient that is not finite, a parameter without a gradient, or a model that was changed. The rank that
has it writes NaN into the first element of every shard before a bucket is sent. After the reduce, each rank checks the
first element of each shard it received. Only if one is not finite do the ranks exchange messages about what went wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Alarm:
    """One rank's side of the alarm, for one backward at a time.

    names: of the parameters. groups: the groups over which gradients are reduced, one after the other. is_on: False
    checks no gradient, for loss scalers, which rely on infs; trouble is then raised only on its own rank. A caller that
    checks the sums by other means can call `listen` to find out which gradient was bad.
    """

    def __init__(
        self, names: Mapping[nn.Parameter, str], groups: Sequence[dist.ProcessGroup | None], *, is_on: bool
    ) -> None:
        self._names, self._groups, self.is_on = names, groups, is_on
        self.complaints: list[str] = []
        self._seen: list[tuple[Sequence[nn.Parameter], Tensor]] = []
        self._listens = False

    def listen(self) -> None:
        """Record gradient norms from now on, possibly over several backwards, until the next call."""
        self._listens, self._seen = True, []

    def bad(self) -> list[nn.Parameter]:
        """The parameters whose gradients on this rank were infinite or not a number before any sum."""
        return [
            parameter
            for parameters, norms in self._seen
            for parameter, is_finite in zip(parameters, norms.isfinite().tolist(), strict=True)
            if not is_finite
        ]

    @torch.no_grad()
    def examine(
        self, parameters: Sequence[nn.Parameter], gradients: list[Tensor], slice_heads: Sequence[Tensor]
    ) -> None:
        """Check gradients before they are sent. Writes trouble to `slice_heads`, the first element of each shard."""
        if not self.is_on and not self._listens:
            return
        norms = torch.stack(torch._foreach_norm(gradients, 2, torch.promote_types(slice_heads[0].dtype, torch.float32)))
        self._seen.append((parameters, norms))
        if not self.is_on:
            return
        nothing = (norms * 0).sum()  # 0, or NaN if a norm is not finite; branch-free to avoid a GPU sync
        for head in slice_heads:
            head.add_(torch.nan if self.complaints else nothing)

    def complain_of_second(self, parameter: Tensor) -> None:
        """Complain that a gradient arrived again after it was taken and perhaps sent, so that the sum is incomplete."""
        self.complaints.append(
            f"{self._names[parameter]} got a gradient twice in one backward, because its module is used twice and "  # type: ignore[index]
            "recomputed in a nested backward: recompute it with torch.utils.checkpoint and use_reentrant=False"
        )

    def answer(self, arrived: Iterable[Tensor | None]) -> None:
        """Check the first element of each received shard. Raises ValueError on every rank if one is not finite."""
        heads = [shard.reshape(-1)[0] for shard in arrived if shard is not None and shard.numel()]
        if self.is_on and heads and not torch.stack(heads).isfinite().all():
            self._raise_together()
        if self.complaints:
            self._raise(self._own_words())
        self.forget()

    def forget(self) -> None:
        """Reset for a new backward."""
        self.complaints = []
        if not self._listens:
            self._seen = []

    def _raise_together(self) -> NoReturn:
        words = self._own_words()
        for group in self._groups:
            of_all: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
            dist.all_gather_object(of_all, words, group=group)
            words = [word for of_one in of_all for word in of_one]
        self._raise(words)

    def _raise(self, words: Sequence[str]) -> NoReturn:
        self.forget()
        nobody = "a sum over the ranks, or a weight, is infinite or not a number"
        raise ValueError("; ".join(dict.fromkeys(words)) or nobody)

    def _own_words(self) -> list[str]:
        """This rank's report: its complaints, or else its gradients that are not finite."""
        rank = dist.get_rank(self._groups[0])
        if self.complaints:
            return [f"rank {rank}: {complaint}" for complaint in self.complaints]
        bad = [self._names[parameter] for parameter in self.bad()]
        if not bad:
            return []
        more = f", and of {len(bad) - 1} more," if len(bad) > 1 else ""
        return [
            f"rank {rank}: the gradient of {bad[0]}{more} is infinite or not a number. No weight was changed. "
            "Check this rank's batch and loss, or lower the learning rate"
        ]
