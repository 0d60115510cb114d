"""Products by shape: what the formula says, and how far it is from products measured on an H100."""

import csv
import statistics
from pathlib import Path

import pytest
from shardlab.costs.clock.efficiency import FITTED
from shardlab.costs.clock.kernels import linear_seconds, product_seconds, speed_of
from shardlab.costs.clock.matmul import EDGE_DEPTH, Product, busy_flops
from shardlab.costs.hardware import ACCELERATORS

MEASURED = Path(__file__).parents[3] / "benchmarks" / "results" / "h100_kernels.csv"
A100, H100 = ACCELERATORS["a100"], ACCELERATORS["h100"]


def test_flops_and_bytes_of_a_product():
    product = Product(rows=3, columns=5, depth=7, groups=2)
    assert product.flops == 2 * 3 * 5 * 7 * 2
    assert product.bytes == 2 * 2 * (21 + 35 + 15)


def test_a_shallow_product_reaches_less_of_the_peak():
    deep, shallow = Product(4096, 4096, 8192), Product(4096, 4096, 128)
    assert busy_flops(deep, 0) / deep.flops == pytest.approx(1 + EDGE_DEPTH / 8192)
    assert busy_flops(shallow, 0) / shallow.flops == pytest.approx(1 + EDGE_DEPTH / 128)


def test_a_wave_that_is_not_full_costs_a_whole_one_on_an_a100():
    full, one_more = Product(256 * 108, 128, 4096), Product(256 * 108 + 1, 128, 4096)
    assert busy_flops(one_more, A100.sms) > 1.3 * busy_flops(full, A100.sms)
    assert busy_flops(one_more, 0) < 1.001 * busy_flops(full, 0)
    assert speed_of(A100, FITTED).sms == 108 and speed_of(H100, FITTED).sms == 0


def test_the_roofline_of_one_row_is_the_memory():
    speed = speed_of(H100, FITTED)
    assert product_seconds(speed, Product(1, 8192, 8192)) == pytest.approx(2 * 8192**2 / speed.memory, rel=1e-3)


def test_a_backward_is_two_products_and_the_sum_of_gradients():
    speed = speed_of(H100, FITTED)
    both = linear_seconds(speed, 8192, 8192, 8192)
    assert both.backward == pytest.approx(2 * both.forward + 8 * 8192**2 / speed.memory)


@pytest.mark.parametrize("edges", [0, EDGE_DEPTH])
def test_products_measured_on_an_h100(edges):
    with MEASURED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "product" and float(row["microseconds"]) > 40]
    ratios = []
    for row in rows:
        product = Product(int(row["rows"]), int(row["columns"]), int(row["inner"]))
        flops = busy_flops(product, 0) if edges else product.flops
        ratios.append(flops / float(row["microseconds"]))
    middle = statistics.median(ratios)
    error = statistics.mean(abs(ratio / middle - 1) for ratio in ratios)
    assert len(rows) > 100 and (error < 0.06 if edges else error > 0.07)  # 5.7% and 7.1%
