"""Week 1: the numbers that the page works out by hand."""

import pytest
from shardlab.costs import traffic

from autograder.authoring import notebooks


def text() -> str:
    lines = notebooks.source_path("week01_collectives").read_text().splitlines()
    return " ".join(line.removeprefix("# ").removeprefix("> ") for line in lines)


def test_the_link_fitted_by_hand():
    samples = traffic.all_reduce_samples(2, [(1, 3), (3, 5)])  # MB and ms
    assert traffic.fit_alpha_beta(samples) == pytest.approx((1, 1))
    assert "1 MB takes 3 ms, 3 MB take 5 ms" in text()


@pytest.mark.parametrize(("turns", "size"), [(2, 8), (1, 0.8)])
def test_ring_and_tree_cross_where_the_page_says(turns, size):
    ring = traffic.all_reduce_seconds(4, size, alpha=2, beta=2)  # ms, and ms per MB
    tree = traffic.all_reduce_seconds(4, size, alpha=2 / turns, beta=2 / turns, algorithm="tree")
    assert ring == pytest.approx(tree) and ring == pytest.approx(12 + 3 * size)
    assert f"cross at S = {size} MB" in text() or f"cross at {size} MB" in text()


def test_seconds_worked_out_by_hand():
    both = [
        [traffic.all_reduce_seconds(4, 8, alpha=a, beta=1, algorithm=name) for name in ("ring", "tree")]
        for a in (1, 20)
    ]
    assert both == [[18, 36], [132, 112]] and "132 s and 112 s" in text()
