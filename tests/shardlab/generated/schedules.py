"""Random pipelines with any legal order, any placement and many kinds of stages, each compared with one process.

A case depends only on its seed, so every rank draws the same one, and only a failing seed needs to be recorded.
"""

import copy
import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Overlap,
    inputs_of,
    num_microbatches,
    num_stages,
    result_of,
    stages_of_rank,
)
from shardlab.pipeline_parallel.shared_weights import add_gradients
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, NUMBERS, RATE, DECAY = 4, 7, 0.05, 0.1
STEPS = 2

# ---- the schedule ----------------------------------------------------------------------------------------------------


def placement(draw, ranks):
    """The ranks that hold each stage: one, or two with half of the microbatches each as in DualPipe."""
    stages = draw.randint(1, 2 * ranks)
    homes = [draw.randrange(ranks) for _ in range(stages)]
    if draw.random() < 0.4:  # in order, or back and forth as in a V
        homes = [(*range(ranks), *reversed(range(ranks)))[stage % (2 * ranks)] for stage in range(stages)]
    if draw.random() < 0.25:
        return [(home, ranks - 1 - home) for home in homes]
    return [(home, home) for home in homes]


def random_schedule(draw, ranks, homes, microbatches):
    """A random legal order: each action is drawn from those whose inputs are ready."""
    stages, schedule, results = len(homes), [[] for _ in range(ranks)], set()
    todo = [set() for _ in range(ranks)]
    for stage in range(stages):
        for microbatch in range(microbatches):
            kinds = draw.choice([(Kind.F, Kind.B), (Kind.F, Kind.B), (Kind.F, Kind.I, Kind.W)])
            todo[homes[stage][microbatch % 2]] |= {Action(kind, stage, microbatch) for kind in kinds}
    eager = draw.choice([0.0, 0.5, 0.9])  # how often a backward is preferred
    while any(todo):
        rank = draw.randrange(ranks)
        ready = sorted((a for a in todo[rank] if results.issuperset(inputs_of(a, stages))), key=str)
        if not ready:
            continue
        backwards = [action for action in ready if action.kind is not Kind.F]
        chosen = draw.choice(backwards if backwards and draw.random() < eager else ready)
        others = [one for one in ready if {one.kind, chosen.kind} == {Kind.F, Kind.B}]
        pair = [chosen, draw.choice(others)] if others and draw.random() < 0.5 else [chosen]
        forward_first = sorted(pair, key=lambda one: one.kind is not Kind.F)
        schedule[rank].append(Overlap(*forward_first) if len(pair) == 2 else chosen)
        todo[rank].difference_update(pair)
        results.update(filter(None, map(result_of, pair)))
        results.update(one for one in pair if one.kind is Kind.W)
    return schedule


def built_schedule(draw, ranks):
    """One of the course's schedules, at a size it allows."""
    name = draw.choice([name for name in BUILDERS if name != "dualpipe" or ranks % 2 == 0])
    return BUILDERS[name](ranks, 2 * ranks + 2 * (name in ("dualpipe", "dualpipe-v")))


# ---- the model -------------------------------------------------------------------------------------------------------


class Wrapped(nn.Module):
    """A function of a layer and its input."""

    def __init__(self, function, layer):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, x):
        return self.function(self.layer, x)


class Extra(nn.Module):
    """A layer with unused parameters, one of them empty, and a zero-dimensional one."""

    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.tensor(1.5))
        self.empty, self.unused = nn.Parameter(torch.zeros(0, 3)), nn.Parameter(torch.randn(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return self.layer(x) * self.scale


def linear():
    return nn.Linear(WIDTH, WIDTH)


def frozen():
    return nn.Sequential(linear(), nn.Tanh()).requires_grad_(False)


def half_frozen():
    module = nn.Sequential(linear(), nn.Tanh(), linear())
    module[draw_index()].requires_grad_(False)
    return module


def draw_index():
    return 2 * int(torch.randint(2, ()))


FLOATS = {
    "linear": lambda: nn.Sequential(linear(), nn.Tanh()),
    "deep, no bias": lambda: nn.Sequential(nn.Linear(WIDTH, 9, bias=False), nn.GELU(), nn.Linear(9, WIDTH)),
    "norm": lambda: nn.Sequential(nn.LayerNorm(WIDTH), linear()),
    "no weights": nn.Tanh,
    "nothing": nn.Identity,
    "frozen": frozen,
    "half frozen": half_frozen,
    "used twice": lambda: Wrapped(lambda layer, x: layer(torch.tanh(layer(x))) + x, linear()),
    "two branches": lambda: Wrapped(lambda layer, x: layer(x).tanh() * x + layer(x.detach()), linear()),
    "next to a detached path": lambda: Wrapped(lambda layer, x: x + layer(x.detach()), linear()),
    "depends on its data": lambda: Wrapped(lambda layer, x: layer(x) if x.sum() > 0 else x * 2, linear()),
    "recomputed inside": lambda: Wrapped(lambda layer, x: checkpoint(layer, x, use_reentrant=False), linear()),
    "strided": lambda: Wrapped(lambda layer, x: layer(x).mT.contiguous().mT, linear()),
    "more rows": lambda: Wrapped(lambda layer, x: layer(x).repeat_interleave(2, 0), linear()),
    "single precision": lambda: Wrapped(lambda layer, x: layer(x).float(), linear()),
    "unused": Extra,
}
NUMBERED = {
    "embedding": lambda: nn.Embedding(NUMBERS, WIDTH),
    "frozen embedding": lambda: nn.Embedding(NUMBERS, WIDTH).requires_grad_(False),
    "tokenizer": lambda: Wrapped(lambda _, x: (x + 1) % NUMBERS, nn.Identity()),
}


class Doubled(nn.Module):
    """A module in float64, for inputs of any dtype."""

    def __init__(self, module):
        super().__init__()
        self.module = module.double()

    def forward(self, x):
        return self.module(x.double() if x.is_floating_point() else x)


def draw_modules(draw, stages):
    """A module for each stage, with its kind. In some cases the inputs are integers, for one or two stages."""
    sorts = [draw.choice([*FLOATS]) for _ in range(stages)]
    if draw.random() < 0.35:
        first = draw.choice(["embedding", "frozen embedding", *(["tokenizer"] if stages > 1 else [])])
        sorts[0] = first
        if first == "tokenizer":
            sorts[1] = draw.choice(["embedding", "frozen embedding"])
    if all(may_be_frozen(sort) for sort in sorts):
        numbered = [number for number, sort in enumerate(sorts) if sort in NUMBERED]
        sorts[numbered[-1] if numbered else -1] = "embedding" if numbered else "linear"
    return [Doubled((FLOATS | NUMBERED)[sort]()) for sort in sorts], sorts


def may_be_frozen(sort):
    """Whether the loss may depend on none of its weights."""
    return sort in ("no weights", "nothing", "frozen", "frozen embedding", "tokenizer", "depends on its data")


@dataclass(frozen=True)
class PipelineCase:
    """A case drawn from a seed. weights: of the microbatches' losses, by rows. tied: the last stage uses stage 0's."""

    schedule: list
    modules: list
    sorts: list
    batches: list
    recompute: list
    durations: Durations | None
    verify: bool
    tied: bool

    @property
    def last(self):
        return len(self.modules) - 1


def draw_pipeline(seed, ranks):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    if draw.random() < 0.3:
        schedule = built_schedule(draw, ranks)
    else:
        schedule = random_schedule(draw, ranks, placement(draw, ranks), draw.randint(1, 5))
    stages, microbatches = num_stages(schedule), num_microbatches(schedule)
    modules, sorts = draw_modules(draw, stages)
    sizes = [draw.randint(1, 4)] * microbatches if draw.random() < 0.5 else draw_sizes(draw, microbatches)
    whole = sorts[0] in NUMBERED
    batches = [
        torch.randint(NUMBERS, (rows, 2)) if whole else torch.randn(rows, WIDTH, dtype=torch.float64) for rows in sizes
    ]
    tied = stages > 1 and sorts[0] == "linear" and len(homes_of_ends(schedule, stages - 1)) == 2 and draw.random() < 0.7
    if tied:
        modules[-1], sorts[-1] = copy.deepcopy(modules[0]), "linear"
    costs = [draw.choice([0.0, 1.0, 2.5]) for _ in range(stages)]
    durations = draw.choice([None, Durations(costs, costs[::-1], costs, message=draw.choice([0.0, 0.3]))])
    recompute = [draw.random() < 0.25 for _ in range(stages)]
    return PipelineCase(schedule, modules, sorts, batches, recompute, durations, draw.random() < 0.2, tied)


def homes_of_ends(schedule, last):
    """The ranks that hold the first stage and the last; the same rank twice if it holds both."""
    return [rank for end in (0, last) for rank in range(len(schedule)) if end in stages_of_rank(schedule, rank)]


def draw_sizes(draw, microbatches):
    """Different numbers of rows. input_like has the first."""
    return [draw.randint(1, 4) for _ in range(microbatches)]


# ---- one process and the ranks ---------------------------------------------------------------------------------------


def loss(output, microbatch):
    return (output.double() * (microbatch + 1)).square().mean()


def loss_weights(case):
    rows = [len(one) for one in case.batches]
    return [one / sum(rows) for one in rows]


def update(parameters):
    """SGD with weight decay, by hand. A parameter without a gradient does not change."""
    with torch.no_grad():
        for one in parameters:
            if one.grad is not None:
                one.sub_(RATE * (one.grad + DECAY * one))


def one_process(case):
    """Modules after STEPS steps with their last gradients, the loss of each step, and each stage's first input."""
    modules = [copy.deepcopy(module) for module in case.modules]
    if case.tied:
        modules[-1].module[0].weight = modules[0].module[0].weight
    parameters = list(dict.fromkeys(one for module in modules for one in module.parameters()))
    losses, likes = [], []
    for _ in range(STEPS):
        for one in parameters:
            one.grad = None
        total = 0.0
        for number, (batch, weight) in enumerate(zip(case.batches, loss_weights(case), strict=True)):
            x = batch
            for module in modules:
                likes.append(x.detach())
                x = module(x)
            part = loss(x, number) * weight
            part.backward()
            total += part.item()
        update(parameters)
        losses.append(total)
    return modules, losses, likes[: len(modules)]


def pipelined(case, likes):
    """This rank's modules after the same steps, and its losses."""
    rank, last = dist.get_rank(), case.last
    modules = {stage: copy.deepcopy(case.modules[stage]) for stage in stages_of_rank(case.schedule, rank)}
    homes = homes_of_ends(case.schedule, last)
    if case.tied and homes[0] == homes[1] == rank:
        modules[last].module[0].weight = modules[0].module[0].weight
    losses = []
    for _ in range(STEPS):
        stages = {
            number: ModuleStage(
                module,
                inputs=case.batches if number == 0 else None,
                input_like=None if number == 0 else torch.empty_like(likes[number]),
                loss=loss if number == last else None,
                loss_weight=loss_weights(case),
                recompute=case.recompute[number],
            )
            for number, module in modules.items()
        }
        parameters = list(dict.fromkeys(one for module in modules.values() for one in module.parameters()))
        for one in parameters:
            one.grad = None
        execute(case.schedule, stages, group=None, durations=case.durations, executor=Executor(case.verify))
        if case.tied and homes[0] != homes[1] and rank in homes:
            mine = modules[0 if rank == homes[0] else last].module[0].weight
            add_gradients([mine], homes[1] if rank == homes[0] else homes[0], group=None)
        update(parameters)
        losses.append(sum(part.item() for stage in stages.values() for part in stage.losses.values()))
    return modules, losses


def farthest(mine, due):
    """The largest difference of gradients and weights, relative to the largest number; infinite if one is missing."""
    worst = 0.0
    for one, other in zip(mine.parameters(), due.parameters(), strict=True):
        if (one.grad is None) != (other.grad is None):
            return float("inf")
        for a, b in ((one.detach(), other.detach()), (one.grad, other.grad)):
            if a is not None and a.numel():
                worst = max(worst, ((a - b).abs().max() / (1 + b.abs().max())).item())
    return worst


def compare_pipelines(seeds):
    """By seed: the largest difference of this rank's stages from one process, and its losses."""
    torch.set_num_threads(1)
    found = {}
    for seed in seeds:
        case = draw_pipeline(seed, dist.get_world_size())
        due, losses, likes = one_process(case)
        modules, mine = pipelined(case, likes)
        worst = max((farthest(module, due[stage]) for stage, module in modules.items()), default=0.0)
        found[seed] = worst, mine, losses
    return found
