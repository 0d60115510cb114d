"""Week 5: numbers stated on its page, reference answers checked by hand, partial credit, and facts in its reading."""

import ast
import math
from random import Random

import pytest
import shardlab
import torch
from megatron.core.tensor_parallel import mappings
from shardlab.costs import links
from shardlab.costs.machines import find_accelerator, links_of

from autograder import weeks
from autograder.authoring import notebooks
from autograder.traces import TensorParallel, record
from autograder.traces.places import GRAD_INPUT, LINEAR
from autograder.weeks.week05_tensor_parallel import bill, cross_entropy, heads, mlp, operators, reading, why_eight

WEEK = "week05_tensor_parallel"


def page() -> str:
    return " ".join("\n".join(cell.source for cell in notebooks.read_source(WEEK).cells).split())


def test_gathered_logits_cost_four_layers():
    layer, three, gathered = bill.expected(bill.LLAMA)
    assert (round(layer / 1e6, 1), round(three / 1e3), round(gathered / 1e9, 3)) == (469.8, 172, 1.839)
    assert round(gathered / layer) == 4 and "as much as {gathered / layer:.1f} layers" in page()


def test_an_mlp_by_hand():
    """The table of section 2, and a down_bias that is added twice."""
    x, up, down = torch.tensor([[1.0, 2]]), torch.tensor([[1.0, 3], [2, -2]]), torch.tensor([[1.0, 4], [2, 2]])
    output, gradients = mlp.one_process([x, up, torch.zeros(2), down, torch.full((2,), 10.0)], torch.ones(1, 2))
    assert output.tolist() == [[15, 30]] and "`[25 40]` instead of `[15 30]`" in page()
    assert gradients[0].tolist() == [[5, 10]]


def test_f_and_g_are_adjoint_by_hand():
    x, y = torch.tensor([1.0, 2]), [torch.tensor([3.0, 0]), torch.tensor([1.0, 1])]
    for place, (output, gradient) in enumerate(operators.adjoints([x, x], y, operators.F)):
        assert torch.equal(output, 2 * x) and torch.equal(gradient - y[place], torch.tensor([4.0, 1]))
    for place, (output, gradient) in enumerate(operators.adjoints(y, [x, x], operators.G)):
        assert torch.equal(output - y[place], torch.tensor([4.0, 1])) and torch.equal(gradient, 2 * x)


def test_a_loss_by_hand():
    logits = torch.tensor([[0, math.log(2), math.log(4), 0]])
    losses, gradient = cross_entropy.one_process(logits, torch.tensor([2]))
    assert losses.item() == pytest.approx(math.log(2))
    assert gradient.flatten().tolist() == pytest.approx([1 / 8, 1 / 4, 1 / 2 - 1, 1 / 8])


def test_keys_are_paired_as_in_the_table():
    """Six query heads and three key heads: repeat_interleave in one process, and the byte budget with two ranks."""
    own, size = 3, 2
    needed = [[(rank * own + n) * 3 // (own * size) for n in range(own)] for rank in range(size)]
    assert needed == [[0, 0, 1], [1, 2, 2]] and torch.tensor(needed).flatten().equal(
        torch.arange(3).repeat_interleave(2)
    )
    case = heads.CHECK.public[1]
    assert heads.budget(case) == (2 * 8 * 14 * 6, 2 * 8 * 6 * 3 * 2)


def milliseconds(name: str, num_ranks: int, cards: int = 0) -> list[float]:
    """[computing, messages, both, GPU time] of GPT-3's layer, in ms. cards: cards per server, 0 for one per GPU."""
    gpu = find_accelerator(name)
    reached = links_of(gpu)
    between = reached.network * (cards or gpu.per_node) / gpu.per_node
    sizes = {"inside": reached.nvlink, "between": between, "per_node": gpu.per_node, "flops": gpu.bf16_flops / 2}
    both = why_eight.expected({"num_ranks": num_ranks, **why_eight.GPT3, **sizes})
    return [1000 * seconds for seconds in (*both, sum(both), num_ranks * sum(both))]


def test_sixteen_gpus_on_two_nodes_are_faster_than_eight_and_cost_more():
    eight, sixteen = milliseconds("h100", 8), milliseconds("h100", 16)
    shares = [round(100 * one[1] / one[2]) for one in (eight, sixteen)]
    assert round(eight[2], 1) == 6.8 and "takes 6.8 ms on 8 H100, and 15% of it" in page() and shares == [15, 30]
    assert round(sixteen[2], 1) == 4.1 and "On 16 it takes 4.1 ms" in page() and "But 30% are messages now" in page()
    assert (round(sixteen[3]), round(eight[3])) == (66, 55) and "costs 66 GPU ms instead of 55" in page()
    assert round(eight[2] / sixteen[2], 1) == 1.6 and "only 1.6 times as fast" in page()
    assert round(2 * sixteen[2], 1) == 8.3 and "16 need 8.3 ms for two" in page()


def test_with_one_card_per_server_sixteen_gpus_are_slower_than_eight():
    assert round(milliseconds("h100", 16, cards=1)[2]) == 13 > milliseconds("h100", 8, cards=1)[2]
    assert "With one card per server 16 take 13 ms" in page()


def test_seventy_two_gpus_share_nvlink():
    shares = [round(100 * one[1] / one[2]) for one in (milliseconds("gb200", ranks) for ranks in (16, 64))]
    assert round(milliseconds("gb200", 16)[2], 1) == 1.8 and milliseconds("gb200", 64)[2] < 1 and shares == [35, 70]
    assert "16 ranks take 1.8 ms, 35% of it messages, and 64 less than 1 ms, 70%" in page()


def test_latency_of_the_rings():
    h100 = links_of(find_accelerator("h100"))
    eight, many = (4000 * links.all_reduce_seconds(h100, links.group_of(h100, ranks), 0) for ranks in (8, 64))
    assert (round(eight, 2), round(many, 1)) == (0.15, 1.8) and "0.15 ms at 8, 1.8 ms at 64" in page()
    assert many > milliseconds("h100", 64)[1]


CHECKS = weeks.of_week(WEEK)
NUMBERS = ("rows", "columns", "hidden", "tokens", "vocabulary", "width", "sequence", "p")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.exercise)
def test_every_seed_draws_the_same_kinds(check):
    def kinds(seed):
        cases = check.draw(Random(seed))
        return [
            {name: len(value) if name == "inner" else value for name, value in case.items() if name not in NUMBERS}
            for case in cases
        ]

    if check.program == "on_rank":
        assert all(kinds(seed) == kinds(0) for seed in range(1, 30))
        assert any(len(case.get("subgroup", [])) == 1 for case in check.draw(Random(0)))
    assert all(len(check.draw(Random(seed))) == len(check.draw(Random(0))) for seed in range(1, 30))


@pytest.mark.parametrize("seed", range(8))
def test_padding_and_long_sequences_are_always_drawn(seed):
    losses = cross_entropy.CHECK.draw(Random(seed))
    sizes = [(case["vocabulary"], len(case.get("subgroup", range(case["ranks"])))) for case in losses]
    assert any(v % t for v, t in sizes) and any(-(-v // t) * (t - 1) >= v for v, t in sizes if t > 1)
    assert all(case["sequence"] > case["hidden"] for case in heads.CHECK.draw(Random(seed)))


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    assert page["weight"] == [8, 4] and page["followed"] == [1, 3, 5] and page["ranks"] == [4, 5, 6, 7]
    changed = reading.recorded(reading.PAGE | {"tp": 2, "blocks": 1, "b": 2})
    assert all(changed[key] != page[key] for key in page)
    assert reading.recorded(reading.PAGE | {"tp": 1})["calls"] == 3 * [[3, 1]]


def test_the_forward_by_hand_on_the_page():
    """Two ranks, one MLP, on real ranks: the shapes are those of the fake backend."""
    layout = TensorParallel(world=2, tp=2, blocks=1, s=3, b=1, h=8, f=16, vocabulary=12)
    trace = record(layout, 1, LINEAR, real=True)
    assert len(trace.calls) == 2 + 3 + 2 and trace.followed(GRAD_INPUT) == [1, 3]
    assert trace == record(layout, 1, LINEAR)


def reduced_by_megatron():
    x = torch.arange(6.0).reshape(2, 3)
    group = torch.distributed.group.WORLD
    return [mappings._reduce(one, group) for one in (x.clone(), x.T.clone())], x


@pytest.mark.slow
def test_megatrons_reduce_returns_what_is_not_contiguous_unreduced():
    """Section 4 claims this about the pinned version."""
    for (plain, transposed), x in shardlab.run(reduced_by_megatron, ranks=2, timeout=60):
        assert torch.equal(plain, 2 * x)
        assert torch.equal(transposed, x.T)


@pytest.mark.parametrize(
    ("exercise", "mutant", "points", "words"),
    [
        ("week05.operators", "g_adds_the_gradient_up", 1.5, "Right: f."),
        ("week05.operators", "memory_order", 1.5, "In which order is yours stored"),
        ("week05.mlp", "bias_on_every_rank", 0, "The output has down_bias 2 times. Which ranks add it, and when?"),
        ("week05.mlp", "bias_divided", 0, "It is 0.5 times the result of one process, with 2 ranks."),
        ("week05.cross-entropy", "gathers_the_logits", 0, "numbers per token where 3 are enough"),
        ("week05.heads", "f_on_activations", 0, "Right, but rank 0 sends"),
        ("week05.dropout", "as_found", 0, "both were drawn from the same random numbers"),
        ("week05.dropout", "own_numbers_everywhere", 0, "their activations are no longer copies"),
    ],
)
def test_feedback_on_a_wrong_answer_asks_the_right_question(judged, exercise, mutant, points, words):
    verdict = judged(exercise, mutant)
    assert verdict.points == points and words in verdict.text, verdict.text


def test_the_page_imports_little():
    source = notebooks.source_path(WEEK).read_text()
    names = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom | ast.Import)]
    ours = [node for node in names if "shardlab" in (getattr(node, "module", None) or node.names[0].name)]
    assert len(ours) <= 5
