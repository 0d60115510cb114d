"""Random models with random batches. A case is how to build a model, its training data, and its losses.

`model_case(seed)` draws one. Every case can be trained in one process (`trained_alone`). Any way to split the model,
the batch or the step must give the same losses, gradients and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from tests.shardlab.generated.blocks import WIDTH, Block, BlockPlan, call, draw_block, parts_of

OUTPUTS = ("tensor", "with hidden", "with input", "dict")
Call = Callable[[Tensor, Sequence[int], bool], Any]  # a model or its wrapper


@dataclass(frozen=True)
class Microbatch:
    """rows: each rank's inputs, of different lengths. routes: the blocks that each rank's model uses, in order."""

    rows: tuple[Tensor, ...]
    routes: tuple[tuple[int, ...], ...]
    both: tuple[bool, ...]
    is_synchronized: bool  # the last of a step always is

    @property
    def num_rows(self) -> int:
        return sum(len(one) for one in self.rows)


@dataclass(frozen=True)
class ModelCase:
    """blocks: plans of the model's blocks. losses_apart: a backward for each loss instead of one for their sum."""

    seed: int
    ranks: int
    blocks: tuple[BlockPlan, ...]
    output: str
    dtypes: tuple[torch.dtype, ...]  # of parameters outside all blocks
    losses_apart: bool
    microbatches: tuple[tuple[Microbatch, ...], ...] = field(repr=False)  # by step
    max_norm: float | None
    optimizer: tuple[type[torch.optim.Optimizer], dict[str, Any]]

    def new_model(self) -> Generated:
        """A model with the same weights every time, in double precision except for the single-precision parts."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return Generated(self)

    @property
    def tolerance(self) -> float:
        is_single = torch.float32 in self.dtypes or any(plan.single for plan in self.blocks)
        return 2e-4 if is_single else 1e-9

    def losses(self, model: Call, microbatch: Microbatch, rank: int) -> list[Tensor]:
        """The losses of one rank's rows, scaled so that the mean over all ranks is the loss of the microbatch."""
        output = model(microbatch.rows[rank], microbatch.routes[rank], microbatch.both[rank])
        scale = self.ranks / (microbatch.num_rows * len(self.microbatches[0]))
        result, others = _parts(output)
        losses = [result.square().sum() * scale]
        if microbatch.num_rows % 2:  # otherwise the other outputs are unused
            losses.append(sum((other.sin().sum() for other in others), 0 * result.sum()) * scale)
        return losses if self.losses_apart else [torch.stack(losses).sum()]


class Generated(nn.Module):
    """Blocks on a route, and parameters outside them: used, unused, empty, zero-dimensional, of several dtypes."""

    def __init__(self, case: ModelCase) -> None:
        super().__init__()
        self.output = case.output
        self.shift, self.unused = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(2))
        self.blocks = nn.ModuleList(Block(plan) for plan in case.blocks)
        self.scale, self.empty = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.empty(0))
        self.more = nn.ParameterList(torch.ones(WIDTH) for _ in case.dtypes)
        self.double()
        for parameter, dtype in zip(self.more, case.dtypes, strict=True):
            parameter.data = parameter.data.to(dtype)
        for block, plan in zip(self.blocks, case.blocks, strict=True):
            _finish(block, plan, self.blocks[0])

    def forward(self, x: Tensor, route: Sequence[int], both: bool) -> Any:
        """x: [rows, WIDTH]. Returns the result, alone or with a hidden activation or the input, and extra losses."""
        x = given = x * self.scale + self.shift + self.empty.sum()
        hidden, aside = x, []
        for number in route:
            block: Block = self.blocks[number]  # type: ignore[assignment]
            result, extra = parts_of(call(block, x, both))
            hidden, x = x, result if extra is None or not block.plan.uses_extra else result + extra / 2
            if block.aside is not None and block.plan.recomputed != "outside, nested":
                aside.append(block.aside)
                block.aside = None
        for parameter in self.more:
            x = x + (x.to(parameter) * parameter).to(x) / 8
        if self.output == "tensor":
            return x
        if self.output == "dict":
            return {"result": x, "aside": aside, "route": route}
        return x, (hidden if self.output == "with hidden" else given)


def _parts(output: Any) -> tuple[Tensor, list[Tensor]]:
    """The result, and the other tensors that a loss may use."""
    if isinstance(output, Tensor):
        return output, []
    if isinstance(output, dict):
        return output["result"], output["aside"]
    return output[0], [output[1]]


def _finish(block: Block, plan: BlockPlan, first: Block) -> None:
    if block.single is not None:
        block.single.float()
    if plan.tied and block is not first and first.plan.hidden == plan.hidden:
        block.up.weight = first.up.weight
    frozen = {"nothing": [], "bias": [block.up.bias], "all": list(block.parameters())}[plan.frozen]
    for parameter in frozen:
        parameter.requires_grad_(False)


# ---- drawn -----------------------------------------------------------------------------------------------------------


def model_case(seed: int, *, ranks: int = 2, same_routes: bool = False) -> ModelCase:
    """Draw a case. same_routes: all ranks use the same blocks in the same order, as ZeRO-3 requires."""
    random = Random(seed)
    hidden = random.randint(2, 4)
    plans = [draw_block(random, hidden=hidden) for _ in range(random.randint(1, 4))]
    generator = torch.Generator().manual_seed(seed)
    steps = random.randint(2, 4)
    per_step = random.choice([1, 1, 2, 3])
    may_repeat = not any(plan.is_nested or plan.tied for plan in plans)  # a second gradient is refused, as in torch
    if any(plan.is_nested for plan in plans):
        plans = [_untied(plan) for plan in plans]

    def draw_microbatch(is_last: bool) -> Microbatch:
        route = _draw_route(random, len(plans), may_repeat)
        routes = [
            route if same_routes or random.random() < 0.6 else _draw_route(random, len(plans), may_repeat)
            for _ in range(ranks)
        ]
        sizes = [random.randint(1, 4) for _ in range(ranks)]
        rows = tuple(torch.randn(size, WIDTH, generator=generator, dtype=torch.float64) for size in sizes)
        both = tuple(random.random() < 0.6 for _ in range(ranks))
        return Microbatch(rows, tuple(routes), both, is_last or random.random() < 0.5)

    return ModelCase(
        seed=seed,
        ranks=ranks,
        blocks=tuple(plans),
        output=random.choice(OUTPUTS),
        dtypes=random.choice([(), (), (torch.float64,), (torch.float32,), (torch.float32, torch.float64)]),
        losses_apart=random.random() < 0.3,
        microbatches=tuple(
            tuple(draw_microbatch(number + 1 == per_step) for number in range(per_step)) for _ in range(steps)
        ),
        max_norm=random.choice([None, None, 0.5, 0.05]),
        optimizer=random.choice(
            [
                (torch.optim.SGD, {"lr": 0.05}),
                (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
                (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-3}),
            ]
        ),
    )


def _draw_route(random: Random, num_blocks: int, may_repeat: bool) -> tuple[int, ...]:
    """Some blocks in some order, each at most twice."""
    route = random.sample(range(num_blocks), random.randint(1, num_blocks))
    if random.random() < 0.5:
        route.sort()
    if may_repeat and random.random() < 0.5:
        route.insert(random.randint(0, len(route)), random.choice(route))
    return tuple(route)


def _untied(plan: BlockPlan) -> BlockPlan:
    return BlockPlan(**{**vars(plan), "tied": False})


# ---- on one process --------------------------------------------------------------------------------------------------


@dataclass
class Record:
    """The values that every rank must find. losses: by step, microbatch and rank; gradients: by step and name."""

    losses: list[list[list[list[float]]]] = field(default_factory=list)
    gradients: list[dict[str, Tensor | None]] = field(default_factory=list)
    weights: list[dict[str, Tensor]] = field(default_factory=list)


def trained_alone(case: ModelCase, *, always_synchronized: bool, unused_are_zero: bool) -> Record:
    """Train on all ranks' rows, one after another.

    always_synchronized: each microbatch starts with the buffers of the first rank. unused_are_zero: the optimizer gets
    zeros for a parameter without a gradient, as with sharded states; torch's optimizers skip it.
    """
    model, record = case.new_model(), Record()
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    optimizer_class, options = case.optimizer
    optimizer = optimizer_class(trained.values(), **options)
    buffers = [_copies(model)] * case.ranks
    for microbatches in case.microbatches:
        optimizer.zero_grad()
        record.losses.append([])
        for one in microbatches:
            if always_synchronized or one.is_synchronized:
                buffers = [buffers[0]] * case.ranks
            losses, buffers = _microbatch_alone(case, model, one, buffers)
            record.losses[-1].append(losses)
        record.gradients.append({n: None if p.grad is None else p.grad.clone() for n, p in trained.items()})
        for parameter in trained.values():
            if unused_are_zero and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if case.max_norm is not None:
            nn.utils.clip_grad_norm_(trained.values(), case.max_norm)
        optimizer.step()
        record.weights.append({name: one.detach().clone() for name, one in model.named_parameters()})
    return record


def _copies(model: nn.Module) -> dict[str, Tensor]:
    return {name: one.clone() for name, one in model.named_buffers()}


def _microbatch_alone(
    case: ModelCase, model: Generated, microbatch: Microbatch, buffers: list[dict[str, Tensor]]
) -> tuple[list[list[float]], list[dict[str, Tensor]]]:
    """Each rank's losses and its buffers after the microbatch."""
    found, after = [], []
    for rank in range(case.ranks):
        model.load_state_dict(buffers[rank], strict=False)
        losses = case.losses(model, microbatch, rank)
        backward(losses, scale=1 / case.ranks)
        found.append([loss.item() for loss in losses])
        after.append(_copies(model))
    return found, after


def backward(losses: Sequence[Tensor], *, scale: float = 1.0) -> None:
    """One backward for each loss, through the graph that they share."""
    for number, loss in enumerate(losses):
        (loss * scale).backward(retain_graph=number + 1 < len(losses))
