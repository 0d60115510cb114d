"""Week 9: the numbers on its page, partial credit, and the facts behind its reading questions."""

import inspect
import re
from dataclasses import replace
from itertools import permutations

import pytest
from megatron.core import parallel_state
from megatron.core.tensor_parallel import layers
from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.layout import Layout
from shardlab.costs.machines import find_accelerator
from shardlab.costs.memory.states import parameters_on_stage, zero_state_bytes
from shardlab.costs.models.zoo import ZOO
from shardlab.mesh import MEGATRON_ORDER, Mesh, create_process_groups
from shardlab.mesh.nodes import link_bytes_per_second

from autograder.authoring import notebooks
from autograder.weeks.week09_hybrid import order
from autograder.weeks.week09_hybrid.axis_bytes import GPT3, expected
from autograder.weeks.week09_hybrid.rank_37 import MESH, RANK
from autograder.weeks.week09_hybrid.reading import READING


def page() -> str:
    return "\n".join(cell.source for cell in notebooks.read_source("week09").cells)


def test_gpt3_on_1024_gpus_sends_what_the_page_says():
    payload, sent, forward, boundary, gradients = (round(number / 1e6, 1) for number in expected(GPT3))
    assert (payload, sent, forward, boundary, gradients) == (50.3, 88.1, 4227.9, 50.3, 21065.7)
    layout = Layout(tp=8, pp=4, dp=32)
    assert GPT3["parameters"] == parameters_on_stage(ZOO["gpt3-175b"], layout, 1).dense
    one_copy = zero_state_bytes(175e9, 1, 0).total
    assert -(-one_copy // 80e9) == 35 and "need 35 of them" in page()


def test_64_gpus_take_the_milliseconds_of_the_interview():
    forward, boundary, gradients = expected(GPT3 | {"dp": 2})[2:]
    sent = {"tp": 8 * 2 * forward, "pp": 8 * 2 * boundary, "dp": gradients}
    assert {name: round(number / 1e9, 1) for name, number in sent.items()} == {"tp": 67.6, "pp": 0.8, "dp": 10.9}

    def milliseconds(order):
        mesh, gpu = Mesh(tp=8, pp=4, dp=2, order=order), find_accelerator("h100")
        return {name: round(1e3 * sent[name] / link_bytes_per_second(mesh.group_of(37, name), gpu)) for name in sent}

    assert milliseconds("tp-dp-pp") == {"tp": 150, "pp": 16, "dp": 217}
    assert milliseconds("dp-pp-tp")["tp"] == pytest.approx(9 * 150, abs=9)


def test_rank_37_and_the_number_of_groups():
    assert [MESH.group_of(RANK, name) for name in ("dp", "pp")] == [[37, 45], [5, 21, 37, 53]]
    assert MESH.group_of(RANK, "tp") == list(range(32, 40))
    counts = [len(Mesh(tp=8, pp=4, dp=32).groups(name)) for name in ("tp", "pp", "dp")]
    assert counts == [128, 256, 32] and sum(counts) == 416 and "all 416" in page()
    tp, dp, pp = (len(MESH.groups(name)) for name in ("tp", "dp", "pp"))
    assert f"{tp} groups of tp, {dp} of dp, {pp} of pp" in page()


def test_what_the_reading_questions_ask_is_so():
    order = inspect.signature(parallel_state.initialize_model_parallel).parameters["order"].default
    assert READING["default_order"] == order == MEGATRON_ORDER
    source = inspect.getsource(layers.param_is_not_tensor_parallel_duplicate)
    assert f"tp_group.rank() == {READING['counts']}" in source
    assert READING["order"] == [name for name, _ in reversed(Mesh().dense.axes)]
    assert "reversed(mesh.dense.axes)" in inspect.getsource(create_process_groups)


def test_gradients_over_the_wrong_group_are_named_by_their_place(judged):
    verdict = judged("week09.hybrid-step", "dp_over_tp")
    assert verdict.points == 0 and "is not that of one process on the whole batch" in verdict.text


def test_a_step_that_forgets_the_replicas_earns_half(judged):
    verdict = judged("week09.hybrid-step", "no_dp")
    assert verdict.points == 1.5 and "Right: one replica." in verdict.text


@pytest.mark.slow
def test_a_hang_ends_with_the_line_of_every_rank(judged):
    verdict = judged("week09.same-order", "own_group_first", timeout=6.0)
    lines = re.findall(r"rank \d waits in .* of your cell, in (?:my_groups|sum_on_each_axis)\(\)", verdict.text)
    assert verdict.points == 0 and len(lines) == 4  # which of the two depends on when ranks meet


def test_llama_3_s_order_costs_what_the_page_says():
    layout = Layout(**order.LLAMA3, num_microbatches=16, virtual=7, sequence_parallel=True, zero=2)
    sent = traffic_of_step(replace(ZOO["llama3-405b"], sequence=131072), layout).by_axis
    assert all(sent[name] == pytest.approx(order.SENT[name], abs=5e7) for name in sent if name != "ep")
    assert layout.world == 16384
    seconds = {
        inside: order.seconds(order.case_of([*inside], order.LLAMA3, sent, 8, 4.5e11, 5e10))
        for inside in permutations(order.LLAMA3)
    }
    as_published = seconds["tp", "cp", "pp", "dp"]
    assert all((one == as_published) == (inside[0] == "tp") for inside, one in seconds.items())
    assert max(one["tp"] for one in seconds.values()) == pytest.approx(9 * as_published["tp"])


def test_the_paper_s_example_of_16_gpus():
    two = dict.fromkeys(order.LLAMA3, 2)
    took = [
        order.seconds(order.case_of(axes, two, dict.fromkeys(two, 80e9), 4, 4e11, 5e10))["tp"]
        for axes in (["tp", "cp", "pp", "dp"], ["dp", "pp", "cp", "tp"])
    ]
    assert took == [0.2, 1.6]
