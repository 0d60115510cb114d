"""The symptom of each exhibit as numbers, measured on real ranks; most run the code "as found" from a week's page."""

import ast
import math
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import shardlab
import torch
import torch.distributed as dist
from shardlab import model, pipeline_parallel
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import find_model
from shardlab.pipeline_parallel import builders
from torch import Tensor
from torch.nn.functional import mse_loss, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from autograder.authoring import notebooks
from autograder.jobs.needed import Needs, PlacedStatement
from autograder.jobs.statements import statements_of

LAB_2 = Path(__file__).parents[2] / "labs" / "lab02-megatron"
DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
Numbers = dict[str, Any]


def is_other_name(statement: ast.stmt) -> bool:
    """Return whether it only abbreviates names from modules: `f, g = module.copy_to_tp, module.reduce_from_tp`."""
    if not isinstance(statement, ast.Assign):
        return False
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return all(re.fullmatch(r"\w+(\.\w+)+", ast.unparse(value)) for value in values)


@cache
def page(week: str, *names: str) -> SimpleNamespace:
    """Load these functions and classes of a week's page and what they use, without running demonstrations."""
    source = notebooks.source_path(week).read_text(encoding="utf-8")
    statements = [one for one in statements_of(source) if isinstance(one.tree, DEFINITIONS) or is_other_name(one.tree)]
    needs = Needs([PlacedStatement(one, is_given=True) for one in statements])
    kept = [statements[place].tree for place in sorted(needs.of(names))]
    namespace: dict[str, Any] = {"__name__": f"page_of_{week}"}
    exec(compile(ast.Module(kept, []), f"<{week}>", "exec"), namespace)
    return SimpleNamespace(**{name: namespace[name] for name in names})


def waiting(function: Callable[..., Any], *args: Any, ranks: int) -> int:
    """Return how many ranks are still waiting when the call times out."""
    try:
        shardlab.run(function, *args, ranks=ranks, timeout=5)
    except shardlab.RanksFailed as failed:
        return sum(f"rank {rank} waits" in str(failed).lower() for rank in range(ranks))
    return 0


# ---- weeks 1 to 4 ----------------------------------------------------------------------------------------------------


def both_send_first() -> Numbers:
    """Two ranks both send before they receive."""
    numbers = torch.ones(1024)
    found = waiting(page("week01", "both_send_first").both_send_first, numbers, ranks=2)
    return {"bytes": numbers.nbytes, "waiting": found}


def unused_parameter() -> Numbers:
    """Rank 0 has no gradient of parameter 1; return what rank 1's second call gives it."""
    skip = page("week02", "skip_what_is_missing").skip_what_is_missing

    def second_call() -> float:
        gradients = [torch.full((3,), 10.0**n) for n in range(3)]
        own = [gradients[0], None, gradients[2]] if dist.get_rank() == 0 else gradients[:2]
        return skip(own)[1 + (dist.get_rank() == 0)][0].item()

    return {"right": 10.0, "found": shardlab.run(second_call, ranks=2)[1]}


def norm_of_a_slice() -> Numbers:
    """[3, 0] on one rank and [4, 0] on the other, clipped to a norm of 1."""
    slices = shardlab.PerRank([[torch.tensor([3.0, 0])], [torch.tensor([4.0, 0])]])
    by_rank = shardlab.run(page("week03", "clip_as_found").clip_as_found, slices, 1.0, ranks=2)
    clipped = [number for _, numbers in by_rank for number in numbers]
    norms = [norm for norm, _ in by_rank]
    return {"norms": norms, "right": math.hypot(3, 4), "clipped": clipped, "after": math.hypot(*clipped)}


def shared_weight() -> Numbers:
    """A chain that uses weight 0 twice: output and gradients, each divided by those of one process."""
    step = page("week04", "step_with_a_bug").step_with_a_bug
    torch.manual_seed(0)
    weights, batch = [torch.randn(4, 4) / 2 for _ in range(2)], torch.randn(3, 4)

    def on_a_rank() -> tuple[Tensor, list[Tensor]]:
        shards = [weight.flatten().chunk(2)[dist.get_rank()] for weight in weights]
        return step(shards, [[4, 4]] * 2, [0, 1, 0], batch, torch.ones(3, 4), group=dist.group.WORLD)

    leaves, x = [weight.clone().requires_grad_() for weight in weights], batch
    for number in (0, 1, 0):
        x = torch.tanh(x @ leaves[number])
    right = torch.autograd.grad(x.sum(), leaves)
    (output, first), (_, second) = shardlab.run(on_a_rank, ranks=2)
    halves = zip(first, second, right, strict=True)
    ratios = [(torch.cat([a, b]).norm() / whole.norm()).item() for a, b, whole in halves]
    return {"output": (output.norm() / x.norm()).item(), "shared": ratios[0], "other": ratios[1]}


def one_unit() -> Numbers:
    """Peak bytes of unsharded weights on a rank: six layers as six units, and as one."""
    measure = page("week04", "bytes_and_peak").bytes_and_peak
    (sent, fine), (sent_by_one, coarse) = (shardlab.run(measure, layers, 0, ranks=2)[0] for layers in (1, 6))
    return {"sent": sent_by_one / sent, "times": coarse / fine, "units": 6}


# ---- weeks 5 and 6 ---------------------------------------------------------------------------------------------------


def bias_added_by_all() -> Numbers:
    """By how many biases the output of a row-parallel layer is off."""
    layer = page("week05", "bias_on_every_rank").bias_on_every_rank
    torch.manual_seed(0)
    x, up, down, bias = torch.randn(3, 4), torch.randn(4, 8), torch.randn(8, 4), torch.ones(4)
    right = torch.relu(x @ up) @ down + bias
    return {
        f"t{ranks}": (shardlab.run(layer, x, up, down, bias, ranks=ranks)[0] - right).mean().item() for ranks in (2, 4)
    }


def same_masks() -> Numbers:
    """The fraction of positions where two ranks' masks of split neurons agree, and where independent masks would."""
    steps = page("week05", "steps_as_found").steps_as_found
    torch.manual_seed(0)
    args, p = (torch.rand(64, 4) + 0.5, torch.rand(4, 64) + 0.5, torch.rand(64, 8) + 0.5), 0.3
    first, second = shardlab.run(lambda: steps(*args, p, 5, 1, group=dist.group.WORLD)[0][0] != 0, ranks=2)
    return {"alike": (first == second).float().mean().item(), "right": p**2 + (1 - p) ** 2}


def _megatron() -> Any:
    """Import lab 2's own modules, which need megatron-core."""
    if str(LAB_2) not in sys.path:
        sys.path.insert(0, str(LAB_2))
    return import_module("on_cpu"), import_module("upstream_bugs")


@cache
def _by_megatron(ranks: int) -> tuple[Any, list[int]]:
    """For each rank: the losses of lab 2, and how many of 6 numbers `_reduce` sums, contiguous and transposed."""
    on_cpu, upstream_bugs = _megatron()

    def on_a_rank() -> tuple[Any, list[int]]:
        on_cpu.megatron_on_cpu(ranks)
        from megatron.core.tensor_parallel.mappings import _reduce

        inputs = torch.ones(2, 3), torch.ones(3, 2).T
        return upstream_bugs.both_bugs(8), [int((_reduce(x, dist.group.WORLD) == ranks).sum()) for x in inputs]

    bugs, sums = zip(*shardlab.run(on_a_rank, ranks=ranks, timeout=120), strict=True)
    return bugs, sums[0]


def local_smoothing() -> Numbers:
    """Mean losses of the same logits in Megatron's smoothed loss: on one process, and on each of two ranks."""
    by_rank = [one.megatron_smoothed for one in _by_megatron(2)[0]]
    return {"right": by_rank[0].whole, "split": [one.split for one in by_rank]}


def log_of_t() -> Numbers:
    """By how much Megatron's loss of split logits is too large when it receives gathered ones."""
    return {f"t{ranks}": (one := _by_megatron(ranks)[0][0].megatron_gathered).split - one.whole for ranks in (2, 4)}


def unreduced() -> Numbers:
    """How many numbers of a transposed tensor Megatron's `_reduce` sums, and of a contiguous one."""
    _, (contiguous, transposed) = _by_megatron(2)
    return {"contiguous": contiguous, "transposed": transposed}


def _norms_after(finish: str) -> Numbers:
    ours = page("week06", "train", "nothing", "averaged")
    loss, right = shardlab.run(ours.train, ours.nothing, ranks=1)[0]
    (found, first), (_, second) = shardlab.run(ours.train, getattr(ours, finish), ranks=2)
    apart, off = ((first - other).abs().max().item() for other in (second, right))
    return {"right": loss, "loss": found, "apart": apart, "off": off}


def partial_norms() -> Numbers:
    """Sequence parallelism without summing the norms' gradients, 40 steps."""
    return _norms_after("nothing")


def averaged_norms() -> Numbers:
    """The same with averaged gradients of the norms."""
    return _norms_after("averaged")


def gathered_twice() -> Numbers:
    """The gradient of a gather when all ranks do the same work after it; 1 is right."""
    work = page("week06", "same_work_everywhere").same_work_everywhere
    return {f"t{ranks}": shardlab.run(work, ranks=ranks)[0][0] for ranks in (2, 4)}


def masks_drawn_again() -> Numbers:
    """Loss and gradient of a checkpoint that does not keep the random state, compared with the layer without one."""
    torch.manual_seed(0)
    x, up, down = torch.randn(64, 32), torch.randn(32, 128) / 6, torch.randn(128, 32) / 11

    def both(run: Callable[..., Tensor]) -> tuple[float, Tensor]:
        torch.manual_seed(7)
        leaf = x.clone().requires_grad_()
        dropout = torch.nn.functional.dropout
        loss = run(lambda x: x + dropout(torch.nn.functional.gelu(x @ up), 0.1) @ down, leaf).square().mean()
        return loss.item(), torch.autograd.grad(loss, leaf)[0]

    loss, right = both(lambda layer, x: layer(x))
    again, found = both(lambda layer, x: checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False))
    return {"loss": again - loss, "gradient": ((found - right).norm() / right.norm()).item()}


# ---- weeks 7 to 10, and 13 -------------------------------------------------------------------------------------------


def divided_for_the_log() -> Numbers:
    """Loss and gradient of a pipeline with four microbatches, divided by those of one process."""
    step = page("week07", "step_with_a_bug").step_with_a_bug
    torch.manual_seed(0)
    weight, batch, target = torch.randn(4, 4) / 2, torch.randn(12, 4), torch.randn(12, 4)
    leaf = weight.clone().requires_grad_()
    loss = mse_loss(torch.tanh(torch.tanh(batch @ leaf) @ leaf), target)
    (right,) = torch.autograd.grad(loss, leaf)

    def on_a_rank() -> tuple[Tensor | None, Tensor]:
        return step(weight, batch.chunk(4), target.chunk(4), group=dist.group.WORLD)

    (_, first), (found, last) = shardlab.run(on_a_rank, ranks=2)
    return {"loss": (found / loss).item(), "gradient": ((first + last).norm() / right.norm()).item()}


def hooks_gone_round() -> Numbers:
    """The first gradient of two DDP replicas after a split backward, and their mean after a whole one."""
    replicas = page("week08", "gradients_of_two_replicas").gradients_of_two_replicas
    whole, halves = ([one[0] for one in shardlab.run(replicas, split, ranks=2)] for split in (False, True))
    return {"right": whole, "found": halves}


def groups_in_two_orders() -> Numbers:
    """Four ranks, of which two create row groups first and two create column groups first."""
    return {"waiting": waiting(page("week09", "rows_or_columns").rows_or_columns, ranks=4)}


def counted_on_every_rank() -> Numbers:
    """The norm of [3, 0], split over two ranks, and one [0, 4] that both hold."""
    gradients = [torch.tensor([3.0, 0]), torch.tensor([0.0, 4])]
    found = shardlab.run(page("week09", "norm_as_found").norm_as_found, gradients, ranks=2)[0]
    return {"found": found, "right": math.hypot(3, 3, 4)}


def calculator() -> Numbers:
    """The calculator's numbers for Llama 3 70B, divided by the correct ones."""
    sizes = {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocab": 128256, "sequence": 8192}
    sizes |= {"microbatch": 1, "tp": 8, "pp": 4, "dp": 16, "microbatches": 32, "parameters_on_rank": 2.2e9}
    ours = page("week10", "calculator_with_bugs", "calculate")
    found, right = ours.calculator_with_bugs(sizes), ours.calculate(sizes)
    assert right["parameters"] == num_parameters(find_model("llama3-70b"))
    return {name: found[name] / right[name] for name in right}


def swapped_message() -> Numbers:
    """The loss after 25 steps when one rank takes an activation for a gradient, and when it does not."""
    ours = page("week13", "swap", "train")
    torch.manual_seed(1)
    batches, weights = list(torch.randn(8, 16, 8)), torch.randn(8, 8) / 2
    schedule = builders.dualpipe(2, 8)
    program = pipeline_parallel.communicate(schedule)
    wrong = [program[0], [ours.swap(step) for step in program[1]]]
    args = schedule, batches, [batch @ weights for batch in batches]
    losses = [
        [sum(both) for both in zip(*shardlab.run(ours.train, each, *args, ranks=2, timeout=60), strict=True)]
        for each in (program, wrong)
    ]
    return {"start": losses[1][0], "right": losses[0][-1], "found": losses[1][-1]}


# ---- weeks 11 and 12 -------------------------------------------------------------------------------------------------


def loss_that_never_flows() -> Numbers:
    """The balance loss's part of the router's gradient divided by the right one: result dropped, and result used."""
    asked_for = page("week11", "asked_for").asked_for
    return {way.replace(" ", "_"): asked_for(way) / asked_for("added") for way in ("as found", "returned")}


def counted_twice() -> Numbers:
    """How many of ten tokens a recomputed layer counts."""
    layer = page("week11", "Counting").Counting()
    network = torch.nn.Sequential(layer)
    model.recompute(network, "0")
    network(torch.randn(10, 8)).square().sum().backward()
    return {"tokens": 10, "counted": int(layer.load.sum())}


def own_counts() -> Numbers:
    """The balance loss of two ranks that choose one expert each: over all tokens, and averaged over the ranks."""
    balance_loss = page("week11", "balance_loss").balance_loss
    scores, experts = torch.eye(2).repeat_interleave(4, 0), torch.arange(2).repeat_interleave(4)[:, None]
    apart = [balance_loss(*both).item() for both in zip(scores.chunk(2), experts.chunk(2), strict=True)]
    return {"right": balance_loss(scores, experts).item(), "found": sum(apart) / 2}


def counts_in_bf16() -> Numbers:
    """Which way a bias moves for an expert with 40,840 tokens if the mean is 40,900."""
    load, mean = torch.tensor([40_840.0, 40_900.0])
    signs = [torch.sign(mean.to(kind) - load.to(kind)).item() for kind in (torch.float32, torch.bfloat16)]
    return {"right": signs[0], "found": signs[1], "step": int(torch.finfo(torch.bfloat16).eps * 2**15)}


def divided_by_copies() -> Numbers:
    """How many times too large experts' gradients are, and how far Adam's step is from the right one."""
    from tests.shardlab.expert_parallel.test_published_faults import factors_of_experts

    by_size = {ranks: shardlab.run(factors_of_experts, ranks=ranks, timeout=60)[0] for ranks in (2, 4)}
    return {f"t{ranks}": planted for ranks, (_, planted, _) in by_size.items()} | {"adam": by_size[4][2]}


def rank_without_rows() -> Numbers:
    """Which ranks wait when all rows go to rank 0."""
    ours = page("week12", "hunt_by", "as_found")

    def all_to_rank_0() -> None:
        x, up = torch.ones(3, 4), torch.ones(1, 4, 4)
        ours.hunt_by(ours.as_found, x, [3, 0], up, up, x, group=None)

    return {"waiting": waiting(all_to_rank_0, ranks=2)}


def norm_without_experts() -> Numbers:
    """Each of four ranks' idea of the global norm, divided by the global norm."""
    from tests.shardlab.expert_parallel.test_published_faults import norms

    shares = [share for _, share, _ in shardlab.run(norms, ranks=4, timeout=60)]
    return {"least": min(shares), "most": max(shares), "different": len({round(one, 6) for one in shares})}


# ---- week 14 ---------------------------------------------------------------------------------------------------------


def shifted_after_the_split() -> Numbers:
    """Labels of rank 0 of two, for eight tokens that equal their positions."""
    positions = page("week14", "zig_zag").zig_zag(8, 0, 2)
    right, found = (positions[:-1] + 1).tolist(), positions[1:].tolist()
    wrong = sum(a != b for a, b in zip(right, found, strict=True))
    return {"right": right, "found": found, "wrong": wrong, "of": len(right)}


def mean_of_means() -> Numbers:
    """The gradient when one label counts, divided by the right one."""
    ours = page("week14", "lone_label", "loss_share", "mean_of_means")
    shares = {}
    for ranks in (2, 4):
        right, found = (
            shardlab.run(ours.lone_label, one, ranks=ranks)[0] for one in (ours.loss_share, ours.mean_of_means)
        )
        shares[f"c{ranks}"] = found / right
    return shares


def _ring_errors(name: str) -> Numbers:
    ours = page("week14", "my_piece", "ring_attention", "backward_of", name)
    share = getattr(ours, name)

    def on_a_rank() -> list[float]:
        q, k, v, positions = ours.my_piece(16, 2, 8)
        generator = torch.Generator().manual_seed(0)
        whole = [one.double().requires_grad_() for one in torch.randn(3, 1, 2, 16, 8, generator=generator)]
        gradient = torch.randn(1, 2, 16, 8, generator=torch.Generator().manual_seed(1))
        output = scaled_dot_product_attention(whole[0], whole[1], whole[2], is_causal=True)
        right = torch.autograd.grad(output, whole, gradient.double())
        o, lse = ours.ring_attention(q, k, v, positions, group=None)
        found = ours.backward_of(share, gradient[:, :, positions], q, k, v, o, lse, positions, group=None)
        pairs = [(output.detach(), o), *zip(right, found, strict=True)]
        return [((b - a[:, :, positions]).norm() / a[:, :, positions].norm()).item() for a, b in pairs]

    return dict(zip(("output", "dq", "dk", "dv"), shardlab.run(on_a_rank, ranks=2)[0], strict=True))


def first_steps_keys() -> Numbers:
    """A ring's output and gradients when the backward uses the keys of its first step."""
    return _ring_errors("saved")


def sums_of_a_block() -> Numbers:
    """The same when the backward uses each block's own output and sum."""
    return _ring_errors("own_sums")
