"""A small MoE GPT learns the course's text, its experts specialize, and splitting it over ranks changes nothing."""

from copy import deepcopy
from pathlib import Path

import shardlab
import torch
import torch.distributed as dist
from shardlab.expert_parallel import Splits, average_gradients, spread_experts
from shardlab.model.gpt import GPTConfig, next_token_loss
from shardlab.model.moe import MoEConfig
from shardlab.model.moe_gpt import MoEGPT, routed, specialisation, visits_by_kind
from shardlab.model.router import Choice
from shardlab.model.text import batch_of, read_text

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
