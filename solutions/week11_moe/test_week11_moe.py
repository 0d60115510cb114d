"""Week 11: the numbers on its page, its references checked by hand and against the package's, and partial credit."""

import inspect
from dataclasses import replace
from math import log, pi, sqrt
from random import Random

import pytest
import torch
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.moe.router import TopKRouter
from shardlab import costs, model
from shardlab.costs.models.model import attention_matrix_parameters, layer_vectors
from shardlab.model.experts import by_batch
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.permutation import rows_by_expert

from autograder.authoring.course import ROOT
from autograder.weeks.week11_moe import (
    _shared,
    active,
    balance,
    bill,
    fifty_steps,
    flow,
    flow_more,
    latent,
    layer,
    router,
)
from autograder.weeks.week11_moe.reading import READING


def test_the_bill_by_hand():
    """4,096 tokens over 64 experts: 64 rows, 80 at a factor of 1.25, a standard deviation of 7.9."""
    rows, even, worst = bill.expected(bill.SWITCH)
    assert rows == 80 and worst == 1 - 80 / 4096
    assert even == pytest.approx(sqrt(63 / 64) / sqrt(2 * pi * 64)) and round(sqrt(64 * 63 / 64), 1) == 7.9


def test_what_luck_drops_and_fills_is_what_is_drawn():
    """The page's two measured claims: 1/√(2πT/E) at factor 1, and 1.25 for 8 of 256 experts and 4,096 tokens."""
    torch.manual_seed(0)
    loads = torch.stack([torch.rand(4096, 64).topk(1).indices.flatten().bincount(minlength=64) for _ in range(40)])
    lost = (loads - 64).clamp(min=0).sum() / loads.sum()
    assert lost.item() == pytest.approx(bill.expected(bill.SWITCH)[1], rel=0.03)
    fullest = torch.stack([torch.rand(4096, 256).topk(8).indices.flatten().bincount().max() for _ in range(20)])
    assert fullest.float().mean().item() / 128 == pytest.approx(1.25, abs=0.015)
    assert costs.fullest_expert(256, 8, 4096) == pytest.approx(1.25, abs=0.015)


@pytest.mark.parametrize(
    ("case", "experts", "weights"),
    [
        ({"sigmoid": False, "renormalise": False}, {0, 1}, [4 / 8, 2 / 8]),
        ({"sigmoid": False, "renormalise": True}, {0, 1}, [2 / 3, 1 / 3]),
        ({"sigmoid": True, "renormalise": False}, {0, 1}, [4 / 5, 2 / 3]),
        ({"sigmoid": True, "renormalise": True}, {0, 1}, [6 / 11, 5 / 11]),
        ({"sigmoid": True, "renormalise": False, "bias": 0.4}, {0, 2}, [4 / 5, 1 / 2]),
        ({"sigmoid": True, "renormalise": True, "bias": 0.4}, {0, 2}, [8 / 13, 5 / 13]),
    ],
)
def test_the_routers_table_of_the_page(case, experts, weights):
    logits = torch.tensor([[log(4), log(2), 0, 0]])
    bias = torch.tensor([0, 0, case.get("bias", 0), 0])
    found = router.by_definition(case | {"k": 2}, logits, bias, torch.zeros(1, 4))
    chosen = found["the chosen experts"][0].nonzero().flatten()
    assert set(chosen.tolist()) == experts
    torch.testing.assert_close(found["the weights"][0, chosen], torch.tensor(weights))
    routing = model.route(
        logits,
        model.Choice(
            4, 2, score=torch.sigmoid if case["sigmoid"] else torch.nn.Softmax(-1), renormalise=case["renormalise"]
        ),
        bias,
    )
    assert set(routing.experts_TK[0].tolist()) == experts


def test_one_renormalised_choice_gives_the_router_no_gradient():
    logits = torch.randn(5, 4).requires_grad_()
    model.route(logits, model.Choice(4, 1, renormalise=True)).weights_TK.square().sum().backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-6


def test_rows_of_the_page():
    experts = torch.tensor([[1, 0], [2, 1], [1, 2]])
    assert rows_by_expert(experts, 3).choice_R.tolist() == [1, 0, 3, 4, 2, 5]
    stays = layer.kept(experts, torch.rand(3, 2), 2, by_score=False)
    assert stays.flatten().tolist() == [True, True, True, True, False, True]


@pytest.mark.parametrize("by_score", [False, True])
def test_the_layers_reference_is_the_packages_layer(by_score):
    torch.manual_seed(0)
    config = MoEConfig(4, 6, model.Choice(6, 2), shared=1, method=by_batch)
    config = replace(config, capacity=model.Capacity(0.7, by_score=by_score))
    package, x = MoE(config), torch.randn(20, 4)
    routing, _ = package.router(x)
    rows = model.Capacity(0.7).rows(20, config.choice)
    stays = layer.kept(routing.experts_TK, routing.weights_TK, rows, by_score=by_score)
    assert package.shared is not None and 0 < (~stays).sum() < 20
    matrices = [package.experts.up, package.experts.down, package.shared.up[0], package.shared.down[0]]
    given = [x, routing.experts_TK, routing.weights_TK, *matrices, torch.ones(20, 4)]
    found = layer.by_definition([one.detach() for one in given], stays)
    torch.testing.assert_close(found["y"], package(x).detach())


def test_the_auxiliary_loss_of_the_page():
    scores = torch.tensor([[0.6, 0.4], [0.7, 0.3], [0.9, 0.1], [0.2, 0.8]])
    experts = scores.topk(1).indices
    loss, _ = balance.loss_by_definition(scores, experts)
    assert loss.item() == pytest.approx(1.1)
    routing = model.Routing(experts, scores.gather(1, experts), scores)
    assert model.auxiliary_loss(routing).item() == pytest.approx(1.1)
    assert balance.moved(torch.zeros(3), [6, 4, 2], 0.5).tolist() == [-0.5, 0, 0.5]


def test_counts_beyond_two_to_the_24_need_whole_numbers():
    case = {"experts": 7, "around": (1 << 25) + 1, "rate": 0.1, "part": "bias"}
    task = balance.CHECK.make(case, Random(1))
    bias, load, rate = task.inputs[0]["args"]
    assert not torch.equal(model.updated_bias(bias, load.float(), rate=rate), task.expected[0])
    torch.testing.assert_close(model.updated_bias(bias, load, rate=rate), task.expected[0])


def test_own_counts_punish_a_perfect_router_of_the_page():
    """Each of two ranks sends all its tokens to one expert: even over both, loss 1; each rank alone sees more."""
    scores = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    experts = scores.topk(1).indices
    assert balance.loss_by_definition(scores, experts)[0].item() == pytest.approx(1)
    assert balance.loss_by_definition(scores[:2], experts[:2])[0].item() == pytest.approx(1.8)


@pytest.mark.parametrize("seed", range(3))
def test_the_reference_of_a_step_is_the_loss_added(seed):
    """The mean over microbatches of task loss plus coefficient times balance loss, using the package's loss."""
    case = flow_more.CHECK.public[0] | {"microbatches": 2}
    task = flow_more.CHECK.make(case, Random(seed))
    first, second = (task.inputs[rank]["args"] for rank in (0, 1))
    leaf, scales, k, coefficient = first[2].clone().requires_grad_(), *first[3:]
    total = torch.zeros(())
    for number in range(2):
        x, target = (torch.cat([args[place][number] for args in (first, second)]) for place in (0, 1))
        scores = (x @ leaf.T).softmax(-1)
        weights, experts = scores.topk(k, -1)
        y = (weights.unsqueeze(-1) * scales[experts]).sum(1) * x
        balanced = model.auxiliary_loss(model.Routing(experts, weights, scores))
        total = total + ((y - target).square().mean() + coefficient * balanced) / 2
    (gradient,) = torch.autograd.grad(total, leaf)
    torch.testing.assert_close(gradient, task.expected[0]["the gradient of the router"], rtol=1e-4, atol=1e-6)


def test_one_rank_and_one_microbatch_of_the_mesh_is_the_first_bug_hunt():
    task = flow.CHECK.make(flow.CHECK.public[1], Random(0))
    x, target, *rest = task.inputs[0]["args"]
    expected = flow_more.one_process([x], [target], *rest)
    for name in ("the gradient of the router", "the gradient of the experts"):
        torch.testing.assert_close(task.expected[0][name], expected[name])


def test_latent_attention_of_the_page_by_hand():
    assert latent.expected(latent.BY_HAND) == [8, 20, 100, 48]
    assert latent.expected(latent.DEEPSEEK_V3) == [1152, 81_920, 186_888, 51_840]
    assert 2.25 * 2 * 128 * 2 == 1152  # as grouped-query attention with 2.25 groups


def test_skewed_routers_are_skewed_and_luck_is_below_the_target():
    for part in (fifty_steps.SKEWED, fifty_steps.HOT, fifty_steps.COLD):
        for seed in range(3):
            _, fresh = fifty_steps.skewed_logits(part, Random(seed))
            assert fifty_steps.fullest(fresh, torch.zeros(fifty_steps.EXPERTS), 2) > 3
    assert costs.fullest_expert(16, 2, fifty_steps.TOKENS) < fifty_steps.TARGET


@pytest.mark.parametrize(("name", "sizes"), [("deepseek-v3", active.DEEPSEEK_V3), ("mixtral-8x7b", active.MIXTRAL)])
def test_parameters_are_those_of_published_models(name, sizes):
    published = costs.find_model(name)
    assert sizes["attention"] == attention_matrix_parameters(published) + layer_vectors(published, 0)
    last_norm = published.hidden
    assert active.expected(sizes) == (
        costs.num_parameters(published) - last_norm,
        costs.num_parameters(published, active=True) - last_norm,
    )


def test_the_interviews_numbers():
    total, visited = active.expected(active.DEEPSEEK_V3)
    assert (round(total / 1e9), round(visited / 1e9, 1), round(total / visited)) == (671, 37.6, 18)
    assert round(6 * visited / 1e9) == 225 and round(16 * total / 1e12, 1) == 10.7
    assert -(-16 * total // costs.find_accelerator("h100").memory_bytes) == 125 and round((1 - 1 / 32) ** 64, 2) == 0.13


def trained(rate, seed):
    """Trains as the page does, but longer; returns fullest expert over mean, and bits about the character.

    After the page's 250 steps, the ratio was 1.4 with two threads and 1.8 with one: sums differ in the last digit.
    """
    torch.manual_seed(seed)
    text, choice = model.read_text(ROOT / "docs"), model.Choice(8, 2, score=torch.sigmoid, renormalise=True)
    config = model.GPTConfig(layers=2, hidden=32, heads=4, sequence=32)
    network = model.MoEGPT(config, MoEConfig(32, 32, choice, shared=1, gated=True))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for step in range(400):
        tokens, targets = model.batch_of(text, step=step, rank=0, batch=8, sequence=32)
        model.next_token_loss(network(tokens), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        for block in network.blocks:
            block.get_submodule("moe").update_bias(rate=rate)
    tokens, _ = model.batch_of(text, step=10_000, rank=0, batch=32, sequence=32)
    experts = model.routed(network, tokens)[0][0].experts_TK
    load = model.load_of(experts, 8)
    return (load.max() / load.float().mean()).item(), model.specialisation(experts, tokens.flatten())


@pytest.mark.slow
def test_a_bias_evens_the_load_and_experts_specialise_more():
    """Medians of three seeds: one seed moves by 0.4 bits when the text in docs/ changes."""
    full, bits, full_with, bits_with = torch.tensor(
        [[*trained(0.0, seed), *trained(0.005, seed)] for seed in range(3)]
    ).median(0)[0]
    assert full > 2 and full_with < 1.6 and bits_with > bits + 0.3


def test_what_the_reading_questions_ask_is_so():
    drop = inspect.signature(moe_utils.apply_router_token_dropping).parameters["drop_policy"]
    assert drop.default == READING["drops"]
    scores = torch.tensor([[0.9, 0.0, 0.0, 0.6, 0.6, 0.0]])  # the best score of a group, or its best two
    _, chosen = moe_utils.group_limited_topk(scores, 2, 1, 6, 2, 1)
    assert set(chosen[0].tolist()) == {3, 4} and READING["groups"] == 8 // 4
    source = inspect.getsource(TopKRouter.routing)
    places = [source.index(f"{name}(") for name in READING["order"]]
    assert places == sorted(places)
    anew = source.index("compute_routing_scores_for_aux_loss(")
    assert "expert_bias" not in source[anew : source.index("_apply_aux_loss(")]


def test_rows_that_are_not_clear_cut_are_not_drawn():
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.5, 0.0]])
    assert _shared.clear_cut(rows, 2, lambda x: x, 1).tolist() == [[1.0, 0.5, 0.0]]
    with pytest.raises(ValueError, match="draw more"):
        _shared.clear_cut(rows, 2, lambda x: x, 2)


def test_all_experts_on_all_tokens_earn_two_thirds(judged):
    verdict = judged("week11.layer", "all_experts_on_all_tokens")
    assert verdict.points == 2 and "does an expert see tokens of others" in verdict.text


def test_a_loss_that_never_flows_is_asked_whether_it_does(judged):
    verdict = judged("week11.flow", "return_value_dropped")
    assert verdict.points == 0 and "Does the loss flow?" in verdict.text


def test_a_bias_that_counts_in_float32_earns_half(judged):
    verdict = judged("week11.balance", "counts_in_float32")
    assert verdict.points == 1 and "above 2^24" in verdict.text


def test_rates_that_never_settle_and_never_arrive_are_told_apart(judged):
    assert "It oscillates" in judged("week11.fifty-steps", "rate_0_1").text
    assert "It has not arrived" in judged("week11.fifty-steps", "rate_of_deepseek").text
