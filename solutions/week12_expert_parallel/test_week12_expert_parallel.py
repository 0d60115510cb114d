"""Week 12: the numbers on its page, its references checked by hand and against the package, and partial credit."""

from random import Random

import pytest
import torch
from shardlab import costs
from shardlab.expert_parallel import placed
from shardlab.model import Choice, MoE, MoEConfig

from autograder.matrices import known
from autograder.weeks.week12_expert_parallel import (
    _shared,
    bill,
    ep_or_tp,
    exchange,
    gradients,
    placement,
    reading,
    two_level,
)


def test_the_bill_of_deepseek_v3_by_hand():
    once, step, nodes, limited = bill.expected(bill.DEEPSEEK_V3)
    assert once == 63 / 64 * 4096 * 8 * 7168 * 2 and step == 4 * once
    assert (round(nodes, 2), round(limited, 2)) == (5.29, 3.63)


def test_eight_gpus_send_29_megabytes_each_and_235_in_all():
    once = bill.expected(bill.EIGHT_GPUS)[0]
    assert round(once / 1e6, 1) == 29.4 and round(8 * once / 1e6) == 235


@pytest.mark.parametrize("nodes, k", [(2, 3), (4, 2), (3, 1)])
def test_nodes_of_a_token_by_counting_all_choices(nodes, k):
    from itertools import combinations

    draws = list(combinations(range(4 * nodes), k))
    mean = sum(len({expert // 4 for expert in draw}) for draw in draws) / len(draws)
    case = {"tokens": 1, "k": k, "hidden": 1, "ep": 1, "experts": 4 * nodes, "nodes": nodes, "allowed": nodes}
    assert bill.expected(case)[2:] == pytest.approx([mean, mean])


def test_the_interview_by_hand():
    spread, cut, least, rows, columns = ep_or_tp.expected({})
    assert (spread, cut) == (2 * 7 / 8 * 4096 * 6 * 2048 * 2, 2 * 7 * 4096 * 2048 * 2)
    assert (round(spread / 1e6), round(cut / 1e6), least, rows, columns) == (176, 235, 9, 3072, 176)


def test_the_reference_is_the_packages_layer():
    torch.manual_seed(0)
    whole = MoE(MoEConfig(8, 6, Choice(4, 2)))
    x = torch.randn(5, 8)
    routing, _ = whole.router(x)
    up, down = whole.experts.up, whole.experts.down
    ours = _shared.layer(x, routing.experts_TK, routing.weights_TK, up, down)
    assert torch.allclose(whole(x), ours, atol=1e-6)


def test_counts_of_the_page():
    rows = [[1, 2], [0, 1]]
    assert [_shared.leaving(rows, one) for one in (0, 1)] == [2, 0]
    assert [_shared.arriving(rows, one) for one in (0, 1)] == [0, 2]
    experts = [torch.tensor([[1, 0], [1, 2]]), torch.tensor([[3, 0]])]
    assert _shared.traffic(experts, 2) == [[3, 1], [1, 1]]


@pytest.mark.parametrize("routing", [_shared.EVEN, _shared.ONE, _shared.IDLE, _shared.QUIET])
def test_each_routing_is_what_its_name_says(routing):
    case = {"ranks": 3, "own": 2, "k": 1, "tokens": 9, "routing": routing, "special": 1}
    rows = _shared.traffic(_shared.choices(case, Random(0)), 2)
    arrive = [sum(one[target] for one in rows) for target in range(3)]
    assert (arrive[1] == 0) == (routing in (_shared.IDLE, _shared.ONE))
    assert (sum(rows[1]) == 0) == (routing == _shared.QUIET)
    assert (sum(count > 0 for count in arrive) == 1) == (routing == _shared.ONE)
    table = exchange.counts(case, Random(0))
    assert (sum(one[1] for one in table) == 0) == (routing == _shared.IDLE)


def test_root_three_where_a_rank_alone_sees_root_two():
    """A dense weight and two experts, all gradients 1 after the mean."""
    dense, experts = [torch.ones(1)] * 2, [[torch.full((1,), 2.0)], [torch.full((1,), 2.0)]]
    norm, mean, of_experts = gradients.whole(dense, experts, 0.5)
    assert norm.item() == pytest.approx(3**0.5)
    assert [one.item() for one in (mean, *of_experts)] == pytest.approx([0.5 / 3**0.5] * 3)


def test_copies_of_the_page():
    assert two_level.copies(torch.tensor([[4, 5, 7], [0, 1, 6]]), 4, 2) == [1, 2]


def test_published_placements_of_the_page():
    case = placement.PUBLISHED
    loads = placement.drawn_loads(case, Random(1))
    homes = placement.homes_of(case, loads)
    found = {}
    for groups, nodes, places in ((8, 4, 256), (8, 4, 288), (1, 1, 288)):
        flat = placed(loads, num_places=places, num_groups=groups, num_nodes=nodes, num_gpus=32)
        gpus = [flat.experts[at : at + places // 32] for at in range(0, places, places // 32)]
        assert placement.imbalance(gpus, loads) == pytest.approx(flat.imbalance(loads))
        found[groups, places] = round(flat.imbalance(loads), 2), placement.num_away(gpus, homes, 8)
    assert found[8, 256] == (5.37, 0) and found[8, 288] == (1.31, 0)
    assert found[1, 288][0] < 1.05 and found[1, 288][1] > 144


@pytest.mark.parametrize("case", placement.CHECK.draw(Random(3)))
def test_each_puzzle_has_an_answer_with_room_to_spare(case):
    space: dict = {}
    exec(known.find("week12.placement", "right_node_first").source, space)
    for seed in range(8):
        loads = placement.drawn_loads(case, Random(seed))
        homes = placement.homes_of(case, loads)
        gpus = space["place"](loads, homes, case["places"], case["gpus"])
        assert placement.imbalance(gpus, loads) < 1.04
        assert placement.num_away(gpus, homes, case["gpus"]) < 0.1 * len(gpus) * case["places"]


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    assert page["sent"] == [3, 3] and page["received"] == [3, 2] and page["given"][2:] == [[5, 8], [6, 8], [5], [5, 8]]
    changed = reading.recorded(reading.PAGE | {"routes": [[[0, 1], [0, 1]], [[1, 0], [0, 3]]], "h": 4})
    assert changed["sent"] == [4, 0] and all(changed[key] != page[key] for key in page)


def test_an_even_router_sends_as_the_formula_says():
    assert bill.expected(bill.DEEPSEEK_V3)[1] == 2 * costs.layer_exchange_bytes(4096, 8, 7168, 64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "name", "points", "sentence"),
    [
        ("week12.exchange", "pads_to_the_longest", 0, "each row once to its rank"),
        ("week12.exchange", "zero_gradient", 0, "the two lists of counts swap"),
        ("week12.layer", "router_learns_nothing", 0, "numbers of the gradient of weights are wrong"),
        ("week12.empty-rank", "as_found", 0, "waits in all_to_all"),
        ("week12.empty-rank", "returns_its_rows", 0, "the gradient of up is None"),
        ("week12.gradients", "own_experts_alone", 0, "count each dense number once and each expert once"),
        ("week12.two-level", "one_level", 0, "one copy of a token for each node"),
        ("week12.placement", "global", 1, "places hold an expert of another node"),
    ],
)
def test_what_a_student_reads(judged, exercise, name, points, sentence):
    verdict = judged(exercise, name)
    assert verdict.points == points and sentence in verdict.text
