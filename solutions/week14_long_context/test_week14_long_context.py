"""Week 14: the numbers on its page, its references by hand and against flash attention, and partial credit."""

import inspect
from math import log
from random import Random

import pytest
import torch
from shardlab import costs
from shardlab.figures import chunk_owners, chunk_work
from torch.distributed.tensor.experimental._context_parallel import _attention
from torch.nn.functional import scaled_dot_product_attention

from autograder import weeks
from autograder.weeks.week14_long_context import _shared, batch, bill, memory_cap, ring
from autograder.weeks.week14_long_context.reading import READING


def test_the_bill_of_llama_3_by_hand():
    """131,072 tokens over 16 ranks: 8,192 each, with key width 1,024 and query width 16,384."""
    ring_bytes, ulysses, least = bill.expected(bill.LLAMA3_405B)
    assert ring_bytes == 15 * 4 * 8192 * 1024 and ulysses == 15 / 16 * 4 * 8192 * (16384 + 1024)
    assert (round(ring_bytes / 1e6), round(ulysses / 1e6), least) == (503, 535, 18)


@pytest.mark.parametrize("kv_heads, least", [(32, 3), (4, 10), (2, 18)])
def test_ulysses_sends_less_from_the_named_number_of_ranks_on(kv_heads, least):
    sizes = {"b": 1, "s": 720, "heads": 32, "kv_heads": kv_heads, "width": 8}
    sent = {c: bill.expected(sizes | {"c": c}) for c in range(1, 20)}
    assert sent[2][2] == least
    assert [c for c, (in_ring, by_heads, _) in sent.items() if by_heads < in_ring][:1] == [least]


def test_the_package_counts_the_same_bytes():
    case = bill.LLAMA3_405B
    tokens, width = case["s"] / case["c"], case["width"]
    sizes = (case["c"], tokens, case["heads"] * width, case["kv_heads"] * width)
    assert bill.expected(case)[:2] == [costs.kv_bytes(sizes[0], tokens, sizes[3]), costs.ulysses_bytes(*sizes)]


def test_4096_gpus_by_hand():
    tokens, sent, ulysses, hidden, share = weeks.find("week14.4096-gpus").make({}, Random(0)).expected[0]
    assert (tokens, sent, ulysses) == (8192, 31 * 4 * 8192 * 128, 16)
    assert round(sent / 1e6) == 130 and round(hidden) == 2474 and round(share, 2) == 0.57
    h100 = costs.find_accelerator("h100")
    assert hidden == costs.least_tokens_to_hide(1 / 16, flops=h100.bf16_flops, bandwidth=h100.network)


def test_zig_zag_labels_of_the_page():
    tokens = torch.arange(10, 18).unsqueeze(0)
    labels = batch.labels_of(tokens)
    mine = _shared.owned(_shared.ZIG_ZAG, 8, 0, 2)
    assert mine.tolist() == [0, 1, 6, 7] and labels[0, mine].tolist() == [11, 12, 17, -100]


@pytest.mark.parametrize("layout", [_shared.CONTIGUOUS, _shared.ZIG_ZAG, _shared.STRIPED])
def test_layouts_deal_every_position_once(layout):
    found = torch.cat([_shared.owned(layout, 24, rank, 3) for rank in range(3)])
    assert sorted(found.tolist()) == list(range(24))


def test_online_softmax_of_the_page():
    q, k = torch.ones(1, 1, 1, 1), torch.tensor([0, log(3), log(12)]).reshape(1, 1, 3, 1)
    o, lse = _shared.attention(q, k, torch.tensor([8.0, 0, 6]).reshape(1, 1, 3, 1), causal=False)
    assert o.item() == pytest.approx(5) and lse.item() == pytest.approx(log(16))


def test_the_reference_is_flash_attention():
    q, k, v = ring.sequence({"ranks": 3, "rows": 7, "heads": 4, "kv_heads": 2, "width": 8}, Random(0))
    whole = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert torch.allclose(_shared.attention(q, k, v)[0], whole, atol=1e-6)


@pytest.mark.parametrize("c", [1, 2, 4, 8])
def test_work_is_two_minus_one_over_c_and_even(c):
    def ratio(layout):
        work = chunk_work(chunk_owners(layout, c))
        return max(work) / (sum(work) / c)

    assert ratio("contiguous") == 2 - 1 / c and ratio("zig-zag") == 1


def test_two_documents_break_the_balance_as_the_page_says():
    folded, better = (chunk_work(owners, [5, 3]) for owners in (chunk_owners("zig-zag", 4), [1, 3, 2, 1, 0, 0, 2, 3]))
    assert [round(4 * max(work) / sum(work), 2) for work in (folded, better)] == [1.88, 1.18]


def test_the_cap_is_far_below_a_block_of_scores():
    case = memory_cap.LONG
    scores = 4 * case["heads"] * case["rows"] ** 2
    assert scores == 36 * 2**20 and memory_cap.CAP_BYTES == 16 * 2**20


def test_what_the_reading_questions_ask_is_so():
    assert _attention._ContextParallelOptions.rotate_method.name == READING["default"]
    backward = inspect.getsource(_attention._templated_ring_attention_backward)
    loop = backward.split("for i in range(size):")[1].split("if grad_key_ is None")[0]
    sends = [line for line in loop.splitlines() if "dkv_rotater.exchange_buffers" in line]
    assert len(sends) == 1 and sends[0].startswith(" " * 8 + "dkv") and READING["gradients_sent"] == 4
    forward = inspect.getsource(_attention._templated_ring_attention).split("for i in range(size):")[1]
    places = [forward.index(f"{name}(") for name in ("next_buffer", "exchange_buffers", "*rest = op", "step")]
    assert places == sorted(places)


def test_a_ring_that_keeps_every_block_earns_two_thirds(judged):
    verdict = judged("week14.ring", "keeps_all_blocks")
    assert verdict.points == 2 and "which older blocks do you still hold" in verdict.text


def test_whole_blocks_of_scores_earn_one_third(judged):
    verdict = judged("week14.memory-cap", "whole_blocks")
    assert verdict.points == 1 and "the largest tile of scores" in verdict.text


def test_a_mean_of_means_is_asked_for_its_count(judged):
    verdict = judged("week14.batch", "mean_of_means")
    assert verdict.points == 0 and "How many tokens does the mean include" in verdict.text


def test_a_backward_with_a_blocks_own_sums_is_asked_for_the_rows(judged):
    verdict = judged("week14.ring-backward", "own_o_and_lse")
    assert verdict.points == 0 and ("numbers of dk are wrong" in verdict.text or "numbers of dq" in verdict.text)


def test_an_exchange_without_a_backward_is_asked_for_it(judged):
    verdict = judged("week14.ulysses", "no_gradient")
    assert verdict.points == 0 and "The backward of an exchange is the reverse exchange" in verdict.text
