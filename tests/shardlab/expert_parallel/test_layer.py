"""A layer of experts over ranks, and a GPT made of them."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.expert_parallel import Nodes, ParallelMoE, Splits, average_gradients, norm_of_gradients, spread_experts
from shardlab.mesh.axes import Mesh
from shardlab.mesh.gradient_norm import squared_norm
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.experts import by_batch, by_groups
from shardlab.model.gpt import GPTConfig, next_token_loss
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.moe_gpt import MoEGPT, routed, specialisation, visits_by_kind
from shardlab.model.permutation import Capacity
from shardlab.model.router import Choice
from shardlab.model.text import batch_of, read_text

# ---- A layer with experts on many ranks compared with the whole layer on one: outputs, gradients, weights, norm. -----

HIDDEN = 8
PLAIN = MoEConfig(HIDDEN, 8, Choice(8, 2))
SIGMOID = Choice(8, 3, score=torch.sigmoid, renormalise=True, scale=2.5)
FULL = MoEConfig(HIDDEN, 8, SIGMOID, shared=1, gated=True, auxiliary=0.1, z=0.1)
CONFIGS = {
    "softmax": PLAIN,
    "everything": FULL,
    "batched": replace(FULL, method=by_batch),
    "grouped": replace(PLAIN, hidden=16, width=16, method=by_groups),  # its rows are multiples of 16 bytes
    "node limited": replace(PLAIN, choice=Choice(8, 2, groups=4, groups_per_token=1)),
    "first stay": replace(FULL, capacity=Capacity(0.75)),
    "best stay, padded": replace(FULL, capacity=Capacity(0.75, by_score=True, padded=True)),
}
TOKENS = {"even": [6] * 8, "uneven": [5, 9, 4, 7, 6, 4, 5, 8], "empty rank": [7, 0, 5, 4, 0, 6, 4, 4]}


def whole_layer(config, skew):
    torch.manual_seed(0)
    whole = MoE(config)
    for one in whole.parameters():
        torch.nn.init.normal_(one, std=0.3)
    if skew is not None:  # every token chooses only these experts
        whole.router.get_buffer("bias_E")[list(skew)] = 100.0
    return whole


def batch(step, counts, hidden, dtype):
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(count, hidden, generator=generator).to(dtype) for count in counts]


def loss_of(y, num_tokens):
    """This rank's part of the mean over all tokens."""
    return (y.square().sum(-1) + y.sin().sum(-1)).sum() / num_tokens


def twin_step(whole, xs):
    """One process: each rank's tokens in turn, because capacity is per rank. The load and the mean are over all."""
    leaves, outputs = [x.clone().requires_grad_() for x in xs], []
    num_tokens = sum(map(len, xs))
    with torch.no_grad():
        experts_TK = whole.router(torch.cat(xs))[0].experts_TK
    load_E = torch.bincount(experts_TK.flatten(), minlength=whole.config.choice.experts)
    for leaf in leaves:
        whole.load_of_batch = partial(of_all_ranks, load_E, len(leaf) / num_tokens)
        y = whole(leaf)
        loss_of(y, num_tokens).backward()
        outputs.append(y.detach())
    return outputs, leaves


def of_all_ranks(load_E, share, _own):
    return load_E, share


LIMITS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2**-5}  # relative to the largest number or 1
RATES = {torch.float64: 0.1, torch.float32: 0.1, torch.bfloat16: 0.01}  # differences must not grow with the steps


def close(one, other, what, limit=None):
    limit = LIMITS[one.dtype] if limit is None else limit
    apart = (one - other).abs().max().item() / max(1.0, other.abs().max().item()) if one.numel() else 0.0
    assert apart <= limit, f"{what}: {apart}"


def own(tensor, mesh, name, num_sections):
    """This rank's part of a tensor of all experts."""
    if not name.startswith("experts"):
        return tensor
    at = mesh.coordinates(dist.get_rank())
    mine = tensor.chunk(mesh.ep, 0)[at["ep"]]
    if name.endswith("down"):
        return mine.chunk(mesh.expert_tp, 1)[at["etp"]]
    sections = mine.chunk(num_sections, 2)
    return torch.cat([section.chunk(mesh.expert_tp, 2)[at["etp"]] for section in sections], 2)


def beside_one_process(mesh, cases, steps, two_level, dtype=torch.float32):
    torch.set_num_threads(1)
    groups = create_process_groups(mesh)
    world, rank = dist.group.WORLD, dist.get_rank()
    ep = groups.of("ep") if mesh.counts_experts_apart else dist.new_subgroups(1)[0]
    edp = groups.of("edp") if mesh.counts_experts_apart else world
    nodes = None
    if two_level:
        pair = [[0, 2], [1, 3]], [[0, 1], [2, 3]]
        nodes = Nodes(*(dist.new_subgroups_by_enumeration(lists)[0] for lists in pair))
    for config, counts, skew in cases:
        twin = whole_layer(config, skew).to(dtype)
        etp = groups.of("etp") if mesh.expert_tp > 1 else None
        layer = ParallelMoE(deepcopy(twin), Splits(ep, etp, world, nodes))
        ours, theirs = (torch.optim.SGD(one.parameters(), lr=RATES[dtype]) for one in (layer, twin))
        for step in range(steps):
            xs = batch(step, counts[: mesh.world], config.hidden, dtype)
            outputs, leaves = twin_step(twin, xs)
            x = xs[rank].clone().requires_grad_()
            y = layer(x)
            (loss_of(y, sum(map(len, xs))) * mesh.world).backward()  # gradients are averaged
            average_gradients(layer, group=world, expert_group=edp)
            close(y.detach(), outputs[rank], "output")
            close(x.grad / mesh.world, leaves[rank].grad, "input's gradient")
            whole = dict(twin.named_parameters())
            for name, one in layer.named_parameters():
                close(one.grad, own(whole[name].grad, mesh, name, 1 + config.gated), f"gradient of {name}")
            norm = torch.stack([one.grad.norm() for one in twin.parameters()]).norm()
            whole_norm = norm_of_gradients(layer, groups=[ep, etp] if etp else [ep])
            close(whole_norm / norm, torch.ones(()), "norm", LIMITS[dtype])
            for one in (ours, theirs):
                one.step()
                one.zero_grad()
        for name, one in layer.named_parameters():
            close(one.detach(), own(whole[name].detach(), mesh, name, 1 + config.gated), f"weight of {name}")
    return len(cases)


MESHES = {  # tokens differ on all ranks
    1: [Mesh(dp=1)],
    2: [Mesh(dp=2, ep=2), Mesh(dp=2), Mesh(dp=2, etp=2)],
    4: [Mesh(dp=4, ep=4), Mesh(dp=4, ep=2), Mesh(dp=4, ep=2, etp=2)],
    8: [Mesh(dp=8, ep=8), Mesh(dp=8, ep=4, etp=2)],
}
MESH_CASES = [mesh for meshes in MESHES.values() for mesh in meshes]


@pytest.mark.parametrize("mesh", MESH_CASES, ids=lambda mesh: f"{mesh.dp} ranks, ep {mesh.ep}, etp {mesh.expert_tp}")
def test_a_spread_layer_is_the_whole_one(mesh):
    """All configurations, any number of tokens per rank, one expert with all tokens, experts without tokens."""
    configs = [CONFIGS["best stay, padded"]] if mesh.world == 8 else CONFIGS.values()
    cases = [(config, TOKENS["uneven"], None) for config in configs]
    cases += [(FULL, counts, None) for counts in TOKENS.values()]
    one = replace(FULL, choice=Choice(8, 1))
    cases += [(one, TOKENS["even"], (5,)), (PLAIN, TOKENS["empty rank"], (2, 3))]
    done = shardlab.run(beside_one_process, mesh, cases, 1, False, ranks=mesh.world, timeout=90)
    assert done == [len(cases)] * mesh.world


@pytest.mark.parametrize("mesh", [MESHES[2][0], MESHES[4][1], MESHES[4][2]], ids=lambda mesh: f"ep {mesh.ep}")
def test_weights_stay_equal_over_ten_steps(mesh):
    cases = [(CONFIGS[name], TOKENS["empty rank"], None) for name in ("everything", "first stay")]
    shardlab.run(beside_one_process, mesh, cases, 10, False, ranks=mesh.world, timeout=90)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("mesh", [MESHES[2][0], MESHES[2][2], MESHES[4][2]], ids=lambda mesh: f"ep {mesh.ep}")
def test_every_dtype_stays_equal_over_ten_steps(mesh, dtype):
    """bfloat16 has steps of 2^-8. A split width changes the order of sums: at most 8 such steps."""
    names = ("everything", "first stay") if dtype == torch.float64 else ("everything", "softmax")
    cases = [(CONFIGS[name], TOKENS["empty rank"], None) for name in names]
    shardlab.run(beside_one_process, mesh, cases, 10, False, dtype, ranks=mesh.world, timeout=90)


def test_two_levels_give_the_same():
    cases = [(config, TOKENS["even" if config.capacity else "empty rank"], None) for config in CONFIGS.values()]
    cases = [case for case in cases if not (case[0].capacity and case[0].capacity.padded)]
    shardlab.run(beside_one_process, MESHES[4][0], cases, 2, True, ranks=4, timeout=90)


def test_a_rank_without_gradients_has_its_zero_where_the_others_add_theirs():
    assert squared_norm([], torch.device("meta")).device.type == "meta"
    assert squared_norm([]).item() == 0.0


# ---- A small MoE GPT learns the course's text, its experts specialize, and splitting it over ranks changes nothing. --

DOCS = Path(__file__).parents[3] / "docs"
SIZES = {"batch": 8, "sequence": 32}


def built(seed=0):
    torch.manual_seed(seed)
    config = GPTConfig(layers=2, hidden=32, heads=4, sequence=32)
    return MoEGPT(config, MoEConfig(32, 32, Choice(8, 2, renormalise=True), shared=1, gated=True, auxiliary=0.01))


def information(model, tokens):
    """Bits of information about a token in the expert choice of the first block."""
    return specialisation(routed(model, tokens)[0][0].experts_TK, tokens.flatten())


def test_it_learns_and_its_experts_specialise():
    text, model = read_text(DOCS), built()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    held, _ = batch_of(text, step=10_000, rank=0, batch=32, sequence=32)
    before, losses = information(model, held), []
    for step in range(300):
        tokens, targets = batch_of(text, step=step, rank=0, **SIZES)
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    load = model.blocks[0].moe.load_E
    assert losses[0] > 5 and sum(losses[-10:]) / 10 < 3.4
    assert information(model, held) > before + 0.2
    assert load.max() < 4 * load.float().mean()  # 8 is the maximum; the training text is docs/, which changes


def test_specialization_is_0_for_one_mixture_and_1_for_one_expert():
    tokens = torch.arange(8).repeat(4)
    assert specialisation(tokens.unsqueeze(1), tokens) == 3
    assert abs(specialisation(torch.arange(4).repeat_interleave(8).unsqueeze(1), tokens)) < 1e-12


def test_visits_are_counted_by_the_kind_of_character():
    tokens = torch.tensor(list(b"a Zb7\n," + b"\xe4"))
    experts = torch.tensor([[0, 1]] * 7 + [[2, 2]])
    visits = visits_by_kind(experts, tokens, 3)
    assert set(visits) == {"space", "new line", "vowel", "consonant", "capital", "digit", "sign", "other"}
    assert all(row == [1, 1, 0] for kind, row in visits.items() if kind != "other") and visits["other"] == [0, 0, 2]


def test_what_routers_decide_is_seen_layer_by_layer_and_no_hook_stays():
    model, tokens = built(), torch.randint(256, (2, 8))
    seen = routed(model, tokens)
    assert [logits.shape for _, logits in seen] == [(16, 8), (16, 8)] and seen[0][0].experts_TK.shape == (16, 2)
    assert not any(one._forward_hooks for one in model.modules())


def train_beside_one_process(steps):
    torch.set_num_threads(1)
    text, twin, size = read_text(DOCS), built(), dist.get_world_size()
    spread = spread_experts(deepcopy(twin), Splits(dist.group.WORLD))
    alone = dist.new_subgroups(1)[0]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.5) for one in (spread, twin)]
    apart = 0.0
    for step in range(steps):
        batches = [batch_of(text, step=step, rank=rank, **SIZES) for rank in range(size)]
        whole = torch.cat([tokens for tokens, _ in batches]), torch.cat([targets for _, targets in batches])
        losses = []
        for model, (tokens, targets) in ((spread, batches[dist.get_rank()]), (twin, whole)):
            losses.append(next_token_loss(model(tokens), targets))
            losses[-1].backward()
        average_gradients(spread, group=None, expert_group=alone)
        for one in optimizers:
            one.step()
            one.zero_grad()
        mean = losses[0].detach()
        dist.all_reduce(mean)
        apart = max(apart, (mean / size - losses[1].detach()).abs().item())
    return apart


def test_spread_over_two_ranks_it_trains_as_on_one():
    assert max(shardlab.run(train_beside_one_process, 5, ranks=2, timeout=100)) < 1e-5
