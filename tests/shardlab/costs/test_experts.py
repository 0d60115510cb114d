"""Formulas of experts beside numbers that were drawn, published, or measured on ranks."""

from dataclasses import replace

import pytest
from shardlab.costs.axis_traffic import ep_layer_bytes
from shardlab.costs.experts import (
    FP8_SCALED,
    dropped_share,
    exchange_bytes,
    expert_state_bytes,
    expert_tensor_bytes,
    fullest_expert,
    layer_exchange_bytes,
    nodes_of_token,
    split_expert_bytes,
    tokens_first,
    two_level_bytes,
)
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.model import num_parameters
from shardlab.costs.model_zoo import ZOO
from shardlab.costs.planning.planner import plan, seconds_of

V3, H100 = ZOO["deepseek-v3"], ACCELERATORS["h100"]


def test_a_limit_of_four_nodes_takes_deepseek_v3_from_5_29_to_3_63():
    assert round(nodes_of_token(256, 8, 8), 2) == 5.29 and round(nodes_of_token(256, 8, 8, 4), 2) == 3.63
    assert nodes_of_token(256, 8, 1) == 1 and nodes_of_token(8, 8, 4) == 4
    for wrong in ((256, 8, 7), (256, 40, 8, 1), (256, 8, 8, 9)):
        with pytest.raises(ValueError, match="use a number of nodes that divides"):
            nodes_of_token(*wrong)


def test_bytes_of_a_layers_exchanges():
    """DeepSeek-V3: a token's 8 rows of 7168 in fp8 out and bf16 home; over 4 nodes at most 28,672 numbers out."""
    assert exchange_bytes(1, 8, 7168) == 114_688
    assert exchange_bytes(1, 4, 7168, 1) == 28_672 and exchange_bytes(1, 4, 7168) == 57_344
    even = layer_exchange_bytes(4096, 8, 7168, 64)
    assert even == ep_layer_bytes(replace(V3, sequence=4096), Layout(dp=64, ep=64))
    assert layer_exchange_bytes(4096, 8, 7168, 64, dispatch_bytes=FP8_SCALED) / even == pytest.approx(0.758, abs=0.001)
    assert two_level_bytes(6, 4, 8, 1, 4) == 6 * (8 * 4 + 32)


@pytest.mark.parametrize(("size", "k"), [(8, 8), (4, 4), (2, 2)])
def test_ep_and_tp_send_as_much_when_top_k_is_the_number_of_ranks(size, k):
    assert layer_exchange_bytes(100, k, 64, size) == expert_tensor_bytes(100, 64, size)
    assert layer_exchange_bytes(100, 1, 64, size) < expert_tensor_bytes(100, 64, size)


@pytest.mark.parametrize("ep", [1, 2, 4])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 8])
def test_tokens_are_gathered_first_where_that_sends_less(k, ep):
    """Without the k weights and numbers that travel along: 2(t-1)T(k/e - 1)h less."""
    rows = layer_exchange_bytes(100, k, 4096, ep) + 2 * 3 * exchange_bytes(100, k, 4096)
    tokens = layer_exchange_bytes(400, k, 4096, ep) + expert_tensor_bytes(100, 4096, 4)
    assert rows - tokens == pytest.approx(2 * 3 * 100 * (k / ep - 1) * 4096 * 2)
    found = split_expert_bytes(100, k, 4096, ep=ep, etp=4)
    assert tokens_first(k, ep) == (tokens < rows)
    assert found == pytest.approx(tokens + 3 * 100 * 8 * k if tokens_first(k, ep) else rows)
    assert split_expert_bytes(100, k, 4096, ep=4, etp=1) == pytest.approx(layer_exchange_bytes(100, k, 4096, 4))


def test_dropped_choices_and_the_fullest_expert_are_those_that_were_drawn():
    """A uniform router: 64 experts, 64 rows each, k = 1; and largest load over mean for four sizes."""
    assert dropped_share(64) == pytest.approx(0.0496, abs=0.0005)
    assert dropped_share(64, 1.25) == pytest.approx(0.0012, abs=0.0002)
    assert dropped_share(64, 1.5) < 1e-4
    for experts, k, tokens, drawn in (
        (8, 2, 1024, 1.080),
        (64, 6, 4096, 1.110),
        (256, 8, 4096, 1.251),
        (256, 8, 65536, 1.062),
    ):
        assert fullest_expert(experts, k, tokens) == pytest.approx(drawn, abs=0.01)


def test_states_of_experts_and_active_parameters():
    assert num_parameters(V3) / num_parameters(V3, active=True) == pytest.approx(671 / 37, rel=0.03)
    one, spread = expert_state_bytes(V3, ep=64), expert_state_bytes(V3, ep=64, edp=2)
    assert one.total == 16 * 58 * 256 / 64 * 3 * 7168 * 2048
    assert spread.optimizer == one.optimizer / 2 and spread.parameters == one.parameters


@pytest.mark.slow
def test_only_uneven_experts_make_a_plan_slower():
    layout = Layout(dp=8, ep=8, num_microbatches=8)
    model = ZOO["mixtral-8x7b"]
    even, uneven = (seconds_of(model, layout, H100, imbalance=one) for one in (1.0, 1.5))
    assert even == seconds_of(model, layout, H100)
    assert uneven.compute > even.compute and uneven.expert == pytest.approx(1.5 * even.expert)
    alone = replace(layout, ep=1)
    assert seconds_of(model, alone, H100, imbalance=1.5) == seconds_of(model, alone, H100)
    best = [plan(model, H100, 64, 512, imbalance=one, best=1)[0].step.total for one in (1.0, 1.5)]
    assert best[1] >= best[0]
    with pytest.raises(ValueError, match=r"use 1\.0 for even ones"):
        seconds_of(model, layout, H100, imbalance=0.5)
