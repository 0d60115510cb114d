"""An alarm that costs no byte: NaN survives every sum, so the reduce itself carries one rank's trouble to all.

Trouble is a gradient that is not a number, a parameter that got none, or a model that was changed. The rank that has it
writes NaN at the head of every shard before a bucket leaves. After the reduce each rank looks at the first number of
what has come in. Only when that is not a number do all ranks tell each other, in words, what went wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Alarm:
    """One rank's end of the alarm, for one backward at a time.

    names: of the parameters. groups: whose ranks the reduce passes through, one after the other. is_on: False looks at
    no gradient, as a loss scaler needs it that lives on infinite ones; trouble then raises on its own rank alone. Who
    checks the sums by other means, and wants to know whose gradient spoiled one, lets it `listen`.
    """

    def __init__(
        self, names: Mapping[nn.Parameter, str], groups: Sequence[dist.ProcessGroup | None], *, is_on: bool
    ) -> None:
        self._names, self._groups, self.is_on = names, groups, is_on
        self.complaints: list[str] = []
        self._seen: list[tuple[Sequence[nn.Parameter], Tensor]] = []
        self._listens = False

    def listen(self) -> None:
        """From now on, keep what is seen of gradients, also of several backwards, until the next call."""
        self._listens, self._seen = True, []

    def bad(self) -> list[nn.Parameter]:
        """The parameters whose gradients on this rank, before any sum, were seen to be infinite or not a number."""
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
        """Look at gradients that are about to leave; write trouble to `slice_heads`, the first number of each shard."""
        if not self.is_on and not self._listens:
            return
        norms = torch.stack(torch._foreach_norm(gradients, 2, torch.promote_types(slice_heads[0].dtype, torch.float32)))
        self._seen.append((parameters, norms))
        if not self.is_on:
            return
        nothing = (norms * 0).sum()  # 0, or NaN if a norm is not a number: no branch, so nobody waits for a GPU
        for head in slice_heads:
            head.add_(torch.nan if self.complaints else nothing)

    def complain_of_second(self, parameter: Tensor) -> None:
        """A parameter's gradient arrived again after it was taken, and perhaps sent: the sum is not complete."""
        self.complaints.append(
            f"{self._names[parameter]} got a gradient twice in one backward, because its module is used twice and "  # type: ignore[index]
            "recomputed in a nested backward: recompute it with torch.utils.checkpoint and use_reentrant=False"
        )

    def answer(self, arrived: Iterable[Tensor | None]) -> None:
        """Look at the first number of what came in. Raises ValueError on every rank alike when one is not a number."""
        heads = [shard.reshape(-1)[0] for shard in arrived if shard is not None and shard.numel()]
        if self.is_on and heads and not torch.stack(heads).isfinite().all():
            self._raise_together()
        if self.complaints:
            self._raise(self._own_words())
        self.forget()

    def forget(self) -> None:
        """Begin a new backward."""
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
        """What this rank has to say: its complaints, or else the gradients that are not numbers."""
        rank = dist.get_rank(self._groups[0])
        if self.complaints:
            return [f"rank {rank}: {complaint}" for complaint in self.complaints]
        bad = [self._names[parameter] for parameter in self.bad()]
        if not bad:
            return []
        more = f", and of {len(bad) - 1} more," if len(bad) > 1 else ""
        return [
            f"rank {rank}: the gradient of {bad[0]}{more} is infinite or not a number. No weight was changed; "
            "look at this rank's batch and loss, or lower the learning rate"
        ]
