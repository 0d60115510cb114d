"""Routing, balance, capacity and experts on one device compared with token-by-token loops over the definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.model.experts import by_batch, by_groups, by_loop
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.permutation import Capacity, from_rows, rows_by_expert, to_rows
from shardlab.model.recomputation import recompute
from shardlab.model.router import (
    Choice,
    Routing,
    auxiliary_loss,
    load_of,
    route,
    softmax,
    updated_bias,
    with_loss,
    z_loss,
)
from torch import nn
from torch.nn import functional


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_softmax_renormalised_is_the_softmax_of_the_largest_logits():
    logits = drawn(20, 8)
    routing = route(logits, Choice(8, 3, renormalise=True, scale=2.5))
    torch.testing.assert_close(routing.weights_TK, 2.5 * softmax(logits.topk(3, -1).values))
    assert torch.equal(routing.experts_TK, logits.topk(3, -1).indices)


def test_the_bias_chooses_and_does_not_weigh():
    logits, bias = drawn(50, 8).requires_grad_(), torch.zeros(8)
    bias[6] = 100.0
    routing = route(logits, Choice(8, 2, score=torch.sigmoid), bias)
    assert (routing.experts_TK[:, 0] == 6).all()
    torch.testing.assert_close(routing.weights_TK[:, 0], logits[:, 6].sigmoid())
    assert not routing.scores_TE.detach().sub(logits.sigmoid()).any()


def test_groups_are_limited_to_those_with_the_largest_sums():
    """As in DeepSeek-V3, token by token: a group's score is its two best scores; a token uses four of eight groups."""
    logits, choice = drawn(40, 32), Choice(32, 8, score=torch.sigmoid, groups=8, groups_per_token=4)
    routing = route(logits, choice)
    for scores, experts in zip(logits.sigmoid(), routing.experts_TK, strict=True):
        groups = scores.view(8, 4)
        best = groups.sort(descending=True).values[:, :2].sum(-1).topk(4).indices.tolist()
        allowed = [expert for group in best for expert in range(4 * group, 4 * group + 4)]
        due = sorted(allowed, key=lambda expert: -scores[expert])[:8]
        assert set(experts.tolist()) == set(due)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"experts": 8, "k": 9}, "use k from 1 to 8"),
        ({"experts": 8, "k": 0}, "use k from 1 to 8"),
        ({"experts": 8, "k": 3, "groups": 4, "groups_per_token": 1}, "use k from 1 to 2, or more groups"),
        ({"experts": 8, "k": 1, "groups": 3}, "use a number among [1, 2, 4, 8]"),
        ({"experts": 8, "k": 1, "groups": 16}, "use a number among [1, 2, 4, 8]"),
        ({"experts": 8, "k": 1, "groups": 2, "groups_per_token": 3}, "use 1 to 2"),
    ],
)
def test_choices_that_cannot_be_made_are_refused(arguments, sentence):
    with pytest.raises(ValueError) as refused:
        Choice(**arguments)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_scores_that_are_not_numbers_are_refused(wrong):
    logits = drawn(5, 4)
    logits[3, 1] = wrong
    with pytest.raises(ValueError, match="scores of token 3 are not finite"):
        route(logits, Choice(4, 2))


def test_the_auxiliary_loss_is_1_when_even_and_E_when_one_takes_all():
    even = Routing(torch.arange(8).view(8, 1), torch.ones(8, 1), torch.full((8, 8), 1 / 8))
    one = Routing(
        torch.zeros(8, 1, dtype=torch.int64), torch.ones(8, 1), functional.one_hot(torch.zeros(8).long(), 8).float()
    )
    assert auxiliary_loss(even) == 1 and auxiliary_loss(one) == 8
    assert z_loss(torch.zeros(3, 4)).item() == pytest.approx(torch.tensor(4.0).log().item() ** 2)


def test_a_loss_within_a_layer_has_the_gradient_of_one_that_was_added():
    x, w = drawn(4), drawn(4, seed=1).requires_grad_()
    with_loss(x * w, 0.3 * w.square().sum()).sum().backward()
    within = w.grad.clone()
    w.grad = None
    ((x * w).sum() + 0.3 * w.square().sum()).backward()
    torch.testing.assert_close(within, w.grad)


def test_a_bias_balances_a_skewed_router_without_a_loss():
    """The largest load drops from nearly three times the mean to 1.15 times, in 400 steps."""
    logits = drawn(512, 8) + torch.linspace(0, 3, 8)
    choice, bias = Choice(8, 2, score=torch.sigmoid), torch.zeros(8)
    loads = []
    for _ in range(400):
        load = load_of(route(logits, choice, bias).experts_TK, 8)
        loads.append(load.max().item() / (512 * 2 / 8))
        bias = updated_bias(bias, load, rate=0.003)
    assert loads[0] > 2 and loads[-1] < 1.15


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_capacity_keeps_what_a_queue_would(tokens, experts, data):
    k = data.draw(st.integers(1, experts))
    factor = data.draw(st.floats(experts / (tokens * k) + 1e-6, 2.5 + experts / (tokens * k)))
    by_score, choice = data.draw(st.booleans()), Choice(experts, k)
    routing = route(drawn(tokens, experts, seed=tokens), choice)
    capacity = Capacity(factor, by_score=by_score)
    order = [(t, j) for t in range(tokens) for j in range(k)]
    if by_score:
        order.sort(key=lambda at: -routing.weights_TK[at].item())
    room, due = [capacity.rows(tokens, choice)] * experts, torch.zeros(tokens, k, dtype=torch.bool)
    for at in order:
        expert = routing.experts_TK[at].item()
        due[at] = room[expert] > 0
        room[expert] -= 1
    assert torch.equal(capacity.kept(routing, choice), due)


def test_a_capacity_below_one_row_is_refused_with_a_factor_that_works():
    with pytest.raises(ValueError, match="use a factor of 4 or more"):
        Capacity(0.5).rows(2, Choice(8, 1))
    assert Capacity(4).rows(2, Choice(8, 1)) == 1
    with pytest.raises(ValueError, match=r"use 1\.0 or more"):
        Capacity(0)


def test_rows_and_tokens_are_adjoint_and_gradients_are_right():
    experts = torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]])
    kept = torch.tensor([[True, True], [True, False], [False, False], [True, True]])
    rows = rows_by_expert(experts, 4, kept)
    assert rows.sizes == [1, 2, 2, 0] and rows.token_R.tolist() == [0, 0, 3, 1, 3]
    x, y, w = drawn(4, 3).requires_grad_(), drawn(5, 3, seed=1).requires_grad_(), drawn(4, 2, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: to_rows(x, rows), x)
    assert torch.autograd.gradcheck(lambda y, w: from_rows(y, w, rows), (y, w))
    one = (to_rows(x, rows) * y).sum()
    other = (x * from_rows(y, torch.ones(4, 2), rows)).sum()
    torch.testing.assert_close(one, other)


def by_definition(layer, x):
    """Token by token: the sum over its choices of weight times the expert's MLP, plus the shared expert."""
    routing, _ = layer.router(x)
    kept = layer.kept(routing)
    outputs = []
    for t in range(len(x)):
        y = torch.zeros_like(x[t])
        for j, expert in enumerate(routing.experts_TK[t].tolist()):
            if kept is None or kept[t, j]:
                y = y + routing.weights_TK[t, j] * mlp(x[t], layer.experts.up[expert], layer.experts.down[expert])
        outputs.append(y + mlp(x[t], layer.shared.up[0], layer.shared.down[0]))
    return torch.stack(outputs)


def mlp(x, up, down):
    passing, gate = (x @ up).chunk(2)
    return (functional.silu(gate) * passing) @ down


@pytest.mark.parametrize("method", [by_loop, by_batch, by_groups])
@pytest.mark.parametrize("capacity", [None, Capacity(0.7), Capacity(0.7, by_score=True)], ids=["all", "first", "best"])
@pytest.mark.parametrize("skew", [False, True], ids=["", "two experts take all"])
def test_a_layer_is_what_its_definition_says(method, capacity, skew):
    dtype = torch.float32 if method is by_groups else torch.float64
    config = MoEConfig(8, 8, Choice(6, 2, renormalise=True), shared=2, gated=True, capacity=capacity, method=method)
    layer, due = MoE(config).to(dtype), MoE(config).to(dtype)
    for one in layer.parameters():
        nn.init.normal_(one, std=0.4)
    if skew:
        layer.router.get_buffer("bias_E")[[1, 4]] = 50.0
    due.load_state_dict(layer.state_dict())
    xs = [drawn(3, 5, 8).to(dtype).requires_grad_() for _ in range(2)]
    outputs = layer(xs[0]), by_definition(due, xs[1].flatten(0, 1)).view(3, 5, 8)
    for output in outputs:
        output.square().sum().backward()
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(*outputs, **close)
    torch.testing.assert_close(xs[0].grad, xs[1].grad, **close)
    for (name, one), other in zip(layer.named_parameters(), due.parameters(), strict=True):
        assert one.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, **close, msg=name)


@pytest.mark.parametrize("method", [by_loop, by_batch, by_groups])
def test_no_tokens_still_give_every_weight_a_gradient(method):
    layer = MoE(MoEConfig(8, 8, Choice(4, 2), shared=1, auxiliary=0.1, z=0.1, method=method))
    layer(torch.empty(0, 8)).sum().backward()
    assert all(one.grad is not None and not one.grad.any() for one in layer.parameters())


def test_a_recomputed_layer_counts_its_tokens_once_and_keeps_its_losses():
    """torchtitan counted twice (its issue 1593). A loss stored next to the output would have lost its graph."""
    config, x = MoEConfig(8, 8, Choice(4, 2), auxiliary=0.5, z=0.5), torch.randn(6, 8, requires_grad=True)
    torch.manual_seed(0)
    plain = nn.Sequential(MoE(config))
    again = nn.Sequential(MoE(config))
    again.load_state_dict(plain.state_dict())
    recompute(again, "0")
    for model in (plain, again):
        model(x).square().sum().backward()
    assert again[0].load_E.sum() == 12
    torch.testing.assert_close(plain[0].router.weight.grad, again[0].router.weight.grad)
