"""Products by shape: what the formula says, and how far it is from products measured on an H100."""

import csv
import statistics
from pathlib import Path

import pytest
from shardlab.costs.clock.efficiency import FITTED
from shardlab.costs.clock.kernels import linear_seconds, product_seconds
from shardlab.costs.clock.matmul import Product, busy_flops
from shardlab.costs.clock.speed import SUMMED_BYTES, speed_of
from shardlab.costs.hardware import ACCELERATORS

MEASURED = Path(__file__).parents[3] / "benchmarks" / "results" / "h100_kernels.csv"
A100, H100 = ACCELERATORS["a100"], ACCELERATORS["h100"]


def test_flops_of_a_product():
    assert Product(rows=3, columns=5, depth=7, groups=2).flops == 2 * 3 * 5 * 7 * 2


def test_a_shallow_product_pays_for_what_it_writes():
    speed, written = speed_of(H100, FITTED), 2 * 4096 * 4096
    deep, shallow = (Product(4096, 4096, depth) for depth in (8192, 1024))
    for product in (deep, shallow):
        flops = product.flops / speed.matmul
        assert product_seconds(speed, product) == pytest.approx(flops + written / speed.memory)
        assert product_seconds(speed, product, 8) == pytest.approx(flops + 4 * written / speed.memory)


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
    summed = (SUMMED_BYTES - 2) * 8192**2 / speed.memory
    assert both.backward == pytest.approx(2 * both.forward + summed)
    assert both.weights == pytest.approx(both.forward + summed)
    alone = linear_seconds(speed_of(H100, FITTED, summed=2), 8192, 8192, 8192)
    assert alone.backward == pytest.approx(2 * alone.forward)


def test_fp8_operands_are_cast_once_for_each_pass():
    plain, cast = (linear_seconds(speed_of(H100, FITTED, fp8=True)._replace(cast=c), 4096, 1024, 8192) for c in (0, 4))
    memory = speed_of(H100, FITTED).memory
    assert cast.forward - plain.forward == pytest.approx(4 * 4096 * 8192 / memory)
    assert cast.backward - plain.backward == pytest.approx(4 * 4096 * 1024 / memory)
    assert speed_of(H100, FITTED).cast == 0 != speed_of(H100, FITTED, fp8=True).cast


@pytest.mark.parametrize("written", [0, 2])
def test_products_measured_on_an_h100(written):
    """One share of the peak, and with it what is written at the memory's speed: 7.1% and 5.6% off on average."""
    with MEASURED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "product" and float(row["microseconds"]) > 40]
    speed = speed_of(H100, FITTED)
    ratios = [
        product_seconds(speed, Product(int(row["rows"]), int(row["columns"]), int(row["inner"])), written)
        / float(row["microseconds"])
        for row in rows
    ]
    middle = statistics.median(ratios)
    error = statistics.mean(abs(ratio / middle - 1) for ratio in ratios)
    assert len(rows) > 100 and (error < 0.06 if written else error > 0.07)
