"""The formulas compared with a separate message-by-message count, and with numbers computed by hand."""

import subprocess
import sys

import pytest
from shardlab.costs import traffic

ALPHA, BETA = 20e-6, 1e-9


def test_a_gradient_of_14_gb_on_8_ranks():
    assert traffic.naive_all_reduce_bytes(8, 14e9) == (98e9, 98e9)
    assert traffic.ring_all_reduce_bytes(8, 14e9) == 24.5e9
    assert traffic.all_reduce_seconds(8, 14e9, alpha=0, beta=1 / 50e9) == pytest.approx(0.49)
    assert traffic.all_reduce_seconds(8, 14e9, alpha=0, beta=1 / 50e9, algorithm="naive") == pytest.approx(3.92)


def test_from_8_to_64_ranks_only_the_latency_term_grows_ninefold():
    assert traffic.ring_all_reduce_bytes(8, 1.0) == 1.75
    assert traffic.ring_all_reduce_bytes(64, 1.0) == 1.96875
    assert [traffic.all_reduce_messages(n, "ring") for n in (8, 64)] == [14, 126]
    assert [traffic.all_reduce_messages(n, "tree") for n in (8, 64)] == [6, 12]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("num_elements", [0, 1, 7, 24])
def test_elements_sent_are_counted_message_by_message(num_ranks, num_elements):
    sizes = traffic.ring_chunk_sizes(num_elements, num_ranks)
    assert sum(sizes) == num_elements and max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)
    for rank in range(num_ranks):
        reduce_scatter = [sizes[(rank - 1 - step) % num_ranks] for step in range(num_ranks - 1)]
        all_gather = [sizes[(rank - step) % num_ranks] for step in range(num_ranks - 1)]
        sent = traffic.ring_sent_elements(num_elements, num_ranks, rank)
        assert sent == sum(reduce_scatter) + sum(all_gather)
        if num_elements % num_ranks == 0:
            assert sent == traffic.ring_all_reduce_bytes(num_ranks, num_elements)


def test_one_rank_sends_nothing_and_waits_for_nothing():
    for bytes_of in (
        traffic.ring_reduce_scatter_bytes,
        traffic.ring_all_gather_bytes,
        traffic.ring_all_reduce_bytes,
        traffic.tree_all_reduce_bytes,
        traffic.broadcast_bytes,
        traffic.all_to_all_bytes,
    ):
        assert bytes_of(1, 1e6) == 0
    for algorithm in ("ring", "tree", "naive"):
        assert traffic.all_reduce_seconds(1, 1e6, alpha=ALPHA, beta=BETA, algorithm=algorithm) == 0


def test_a_ring_all_reduce_takes_its_two_halves():
    halves = traffic.reduce_scatter_seconds(6, 1e6, alpha=ALPHA, beta=BETA)
    halves += traffic.all_gather_seconds(6, 1e6, alpha=ALPHA, beta=BETA)
    assert traffic.all_reduce_seconds(6, 1e6, alpha=ALPHA, beta=BETA) == pytest.approx(halves)


def test_all_to_all_of_eight_experts():
    """16,384 tokens, 2 experts each, 4,096 numbers in bf16, over 8 ranks: 29.4 MB per rank, 235 MB in total."""
    per_rank = 16384 * 2 * 4096 * 2 / 8
    assert traffic.all_to_all_bytes(8, per_rank) == pytest.approx(29.36e6, rel=1e-3)


def test_across_two_nodes_of_two_half_a_tensor_crosses():
    assert traffic.hierarchical_all_reduce_cross_bytes(2, 2, 8.0) == 4.0
    assert traffic.hierarchical_all_reduce_cross_bytes(1, 8, 8.0) == 0.0


@pytest.mark.parametrize("num_ranks", [4, 6, 8, 64])
def test_tree_and_ring_take_equally_long_at_the_crossover(num_ranks):
    crossover = traffic.tree_ring_crossover_bytes(num_ranks, ALPHA, BETA)

    def seconds(size, algorithm):
        return traffic.all_reduce_seconds(num_ranks, size, alpha=ALPHA, beta=BETA, algorithm=algorithm)

    assert seconds(crossover, "ring") == pytest.approx(seconds(crossover, "tree"))
    assert seconds(crossover / 2, "tree") < seconds(crossover / 2, "ring")
    assert seconds(crossover * 2, "tree") > seconds(crossover * 2, "ring")


def test_with_two_or_three_ranks_the_tree_never_wins():
    assert [traffic.tree_ring_crossover_bytes(n, ALPHA, BETA) for n in (1, 2, 3)] == [0, 0, 0]


def test_a_fit_finds_the_link_that_made_the_samples():
    samples = [(6, size, 6 * ALPHA + size * BETA) for size in (1e3, 1e4, 1e6, 1e8)]
    assert traffic.fit_alpha_beta(samples) == pytest.approx((ALPHA, BETA))


def test_a_fit_is_never_negative():
    falling = [(6, 1e3, 2e-3), (6, 1e6, 1e-3)]
    assert traffic.fit_alpha_beta(falling).beta == 0
    superlinear = [(6, 1e3, 1e-9), (6, 1e6, 1e-2)]
    assert traffic.fit_alpha_beta(superlinear).alpha == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: traffic.ring_all_reduce_bytes(0, 1), "use 1 or more"),
        (lambda: traffic.ring_all_reduce_bytes(2, -1), "0 or more"),
        (lambda: traffic.ring_sent_elements(8, 4, 4), "from 0 to 3"),
        (lambda: traffic.all_reduce_seconds(4, 1, alpha=1, beta=1, algorithm="star"), "'ring', 'tree' or 'naive'"),
        (lambda: traffic.all_reduce_seconds(4, 1, alpha=-1, beta=1), "must not be negative"),
        (lambda: traffic.tree_ring_crossover_bytes(4, 1e-6, 0), "beta > 0"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3)]), "at least 2"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3)] * 3), "a short and a long"),
        (lambda: traffic.fit_alpha_beta([(6, 1e3, 1e-3), (6, 1e6, 0)]), "seconds > 0"),
    ],
)
def test_a_wrong_size_is_answered_with_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_costs_import_no_torch():
    code = "import sys, shardlab.costs.traffic; print('torch' in sys.modules or 'numpy' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert answer.stdout.strip() == "False"
