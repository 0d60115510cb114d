"""Train generated cases on real ranks with every data-parallel wrapper, and describe differences from one process."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3, ZeroPlusPlus
from torch import Tensor, nn

from tests.shardlab.generated.cases import Microbatch, ModelCase, Record, backward, model_case, trained_alone

WRAPPERS = ("ddp", "ddp and sharded optimizer", "zero1", "zero2", "zero3", "zero++")


@dataclass(frozen=True)
class Drawn:
    """A wrapper and its options, drawn from the same seed as the case."""

    case: ModelCase
    wrapper: str
    options: dict[str, Any]
    units: tuple[int, ...] = ()  # of ZeRO-3: numbers of blocks


def draw(wrapper: str, seed: int, ranks: int) -> Drawn:
    random = Random(f"{wrapper} {seed}")
    gathers = wrapper in ("zero3", "zero++")
    case = model_case(seed, ranks=ranks, same_routes=gathers)
    sizes = random.choice(
        [{}, {"bucket_bytes": 100, "first_bucket_bytes": 1}, {"bucket_bytes": 1, "first_bucket_bytes": 1}]
    )
    if wrapper in ("ddp", "ddp and sharded optimizer"):
        return Drawn(case, wrapper, sizes)
    if not gathers:
        return Drawn(case, wrapper, sizes if wrapper == "zero2" else {})
    units = sorted(random.sample(range(len(case.blocks)), random.randint(1, len(case.blocks))))
    options = {"prefetch": random.choice([0, 1, 2]), "reshard_after_forward": random.random() < 0.7}
    return Drawn(case, wrapper, options, tuple(units))


class Trained:
    """A wrapped model that can be called and compared with a record."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn, self.model = drawn, drawn.case.new_model()
        optimizer_class, options = drawn.case.optimizer
        self.call: Any = self.model
        self.zero: Any = None
        if drawn.wrapper.startswith("ddp"):
            self.call = DataParallel(self.model, unused_parameters=True, **drawn.options)
            sharded = drawn.wrapper != "ddp"
            new = partial(ShardedOptimizer, optimizer_class=optimizer_class) if sharded else optimizer_class
            self.optimizer = new([p for p in self.model.parameters() if p.requires_grad], **options)
            return
        kind = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3, "zero++": ZeroPlusPlus}[drawn.wrapper]
        more = {"units": [self.model.blocks[number] for number in drawn.units]} if drawn.units else {}
        more |= {"node": dist.group.WORLD} if drawn.wrapper == "zero++" else {}
        self.optimizer = self.zero = kind(self.model, optimizer_class, **more, **drawn.options, **options)

    def microbatch(self, microbatch: Microbatch) -> list[float]:
        """This rank's losses of a microbatch."""
        is_alone = not microbatch.is_synchronized and self.zero is None
        with self.call.no_sync() if is_alone else nullcontext():
            losses = self.drawn.case.losses(self.call, microbatch, dist.get_rank())
            backward(losses)
        return [loss.item() for loss in losses]

    def step(self) -> None:
        max_norm = self.drawn.case.max_norm
        if isinstance(self.optimizer, ShardedOptimizer):
            self.optimizer.step(max_norm=max_norm)
            return
        if max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        self.optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        named: dict[str, Tensor] = dict(self.model.named_parameters())
        return named | (self.zero.full_parameters() if self.zero is not None else {})

    def gathered(self) -> int:
        """Bytes of whole vectors that ZeRO-3 holds."""
        vectors = self.zero.vectors if self.drawn.units else []
        return sum(vector.full.untyped_storage().nbytes() for vector in vectors)


def differences(drawn: Drawn, due: Record) -> list[str]:
    """Train on these ranks and describe how the first wrong step differs from one process."""
    trained, rank, tolerance = Trained(drawn), dist.get_rank(), drawn.case.tolerance
    for number, microbatches in enumerate(drawn.case.microbatches):
        trained.optimizer.zero_grad()
        found: list[str] = []
        for part, microbatch in enumerate(microbatches):
            losses = trained.microbatch(microbatch)
            found += _compare("loss", losses, due.losses[number][part][rank], tolerance)
            if trained.gathered():
                found.append(f"{trained.gathered()} bytes are gathered after a backward")
        found += _gradients(trained, due.gradients[number], tolerance)
        trained.step()
        if trained.gathered():
            found.append(f"{trained.gathered()} bytes are gathered after a step")
        for name, weight in trained.weights().items():
            found += _compare(name, weight.detach(), due.weights[number][name], tolerance)
        if found:
            return [f"step {number}: {one}" for one in found]
    return []


def _gradients(trained: Trained, due: dict[str, Tensor | None], tolerance: float) -> list[str]:
    """Differences of gradients. DDP: each gradient, or that it is missing. ZeRO-2 and 3: this rank's slices."""
    named = dict(trained.model.named_parameters())
    if trained.zero is None:
        return [
            one
            for n, gradient in due.items()
            for one in _compare(f"gradient of {n}", named[n].grad, gradient, tolerance)
        ]
    if trained.drawn.wrapper != "zero1":
        name_of = {parameter: name for name, parameter in named.items()}
        found = []
        for vector, shard in zip(trained.zero.vectors, trained.zero.gradients.shards(), strict=True):
            known = [(due[name_of[one]], shape) for one, shape in zip(vector.parameters, vector.shapes, strict=True)]
            whole = torch.cat([torch.zeros(shape).view(-1) if one is None else one.view(-1) for one, shape in known])
            padded = nn.functional.pad(whole, (0, vector.padding))
            names = ", ".join(name_of[one] for one in vector.parameters)
            found += _compare(f"shard of {names}", shard, vector.own_shard(padded), tolerance)
        return found
    return []


def _compare(what: str, found: Any, due: Any, tolerance: float) -> list[str]:
    if found is None or due is None:
        return [] if found is due else [f"{what} is {found}, due {due}"]
    found, due = torch.as_tensor(found), torch.as_tensor(due)
    if torch.allclose(found.double(), due.double(), rtol=tolerance, atol=tolerance):
        return []
    return [f"{what} is {found.tolist()}, due {due.tolist()}"]


def compare_all(wrapper: str, seeds: Sequence[int]) -> dict[int, list[str]]:
    """Seeds whose case differs on this rank, and how. An error ends the run, because ranks may then be out of step."""
    torch.set_num_threads(1)
    found = {}
    for seed in seeds:
        drawn = draw(wrapper, seed, dist.get_world_size())
        try:
            is_zero = wrapper.startswith("zero")
            due = trained_alone(drawn.case, always_synchronized=is_zero, unused_are_zero=wrapper != "ddp")
            different = differences(drawn, due)
        except Exception:
            found[seed] = [traceback.format_exc()]
            return found
        if different:
            found[seed] = different
    return found
