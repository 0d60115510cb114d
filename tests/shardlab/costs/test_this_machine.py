"""The model of this machine, and the programs of lab 1."""

import csv
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from shardlab.costs.clock.calibrated import products_seconds
from shardlab.costs.clock.here import at_work, link_of, slowdown_of
from shardlab.costs.clock.kernels import Product, busy_flops, linear_seconds, product_seconds
from shardlab.costs.clock.setup import FITTED, SUMMED_BYTES, Setup, speed_of
from shardlab.costs.clock.step import step_seconds
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.machines import as_accelerator, as_trained
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import Link

# ---- Seconds on this machine: matrix products, and a step predicted from its calibration. ----------------------------

# ---- Products by shape: the formula, and its error for products measured on an H100 ----------------------------------


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
    """One fraction of the peak, without and with the time to write the result: 7.1% and 5.6% off on average."""
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


# The CPU clock: how each number of the calibration affects a step, and the parts of a step


GPT = Transformer("gpt", 4, 128, 4, 4, 512, 256, 128, bias=True, positions=128, norm_vectors=4, number_bytes=4)
MIXED = replace(GPT, experts=4, active_experts=2, expert_ffn=64)
FREE = Link(0.0, 0.0)


@pytest.fixture
def quiet(calibration):
    """A calibration in which only products take time, and ranks do not slow each other down."""
    free = {kind: FREE for kind in calibration.ranks[2].links}
    return replace(
        calibration,
        matmul={"float32": {16: 1e10, 1024: 1e10}},
        memory={2**14: 1e30},
        pass_seconds=(0.0, 0.0, 0.0),
        adam_seconds=(0.0, 0.0, 0.0),
        ranks={number: replace(one, slowdown=1.0, links=free) for number, one in calibration.ranks.items()},
        cores=8,
    )


def seconds(calibration, layout, model=GPT):
    return step_seconds(model, layout, Setup(as_accelerator(calibration, ranks=layout.world), gradient_bytes=4))


def with_links(calibration, **links):
    found = {number: replace(one, links=dict(one.links) | links) for number, one in calibration.ranks.items()}
    return replace(calibration, ranks=found)


def test_one_rank_takes_its_products_and_adam(quiet):
    layout = Layout(microbatch=16)
    assert seconds(quiet, layout).total == pytest.approx(
        products_seconds(quiet.matmul["float32"], 4, 128, 128, 256, 16, heads=4)
    )
    slow_adam = replace(quiet, adam_seconds=(1.0, 1e-2, 0.0))
    assert seconds(slow_adam, layout).optimizer == pytest.approx(1.0 + 52 * 1e-2)  # 12 tensors per layer, 4 more
    in_slices = seconds(slow_adam, Layout(dp=2, zero=1, microbatch=8))
    assert in_slices.optimizer == pytest.approx(1.0 + 1e-2)


@pytest.mark.parametrize(
    "layout",
    [
        Layout(dp=4, microbatch=4),
        Layout(tp=4, microbatch=16),
        Layout(cp=4, microbatch=16),
        Layout(pp=4, microbatch=1, num_microbatches=1),
    ],
    ids=["dp", "tp", "cp", "pp"],
)
def test_four_ranks_share_the_products(quiet, layout):
    """Four ranks take a quarter of the time, but a pipeline of one microbatch takes as long as one rank."""
    whole, part = seconds(quiet, Layout(microbatch=layout.microbatch * layout.dp)), seconds(quiet, layout)
    if layout.pp > 1:
        assert part.compute + part.bubble == pytest.approx(whole.compute)
    else:
        assert part.total == pytest.approx(whole.total / 4)


def test_ranks_beyond_the_cores_take_turns(calibration):
    assert [slowdown_of(calibration, n) for n in (1, 2, 3, 4, 8)] == pytest.approx([1.0, 1.1, 1.65, 2.2, 4.4])
    gpu = as_accelerator(calibration, ranks=4)
    assert at_work(Layout(dp=4), gpu) == 4
    assert at_work(Layout(dp=2, pp=2, num_microbatches=2), gpu) == pytest.approx(4 * 2 / 3)  # a third waits


def test_each_axis_pays_for_its_own_messages(quiet):
    """With alpha = 1 s for one kind, seconds count messages: a ring has 2(N-1), or N-1 for half of it."""
    slow = {"all_reduce": Link(1.0, 0.0)}
    plain = seconds(with_links(quiet, **slow), Layout(tp=2, microbatch=16))
    assert plain.tensor == pytest.approx(4 * 4 * 2)  # layers, all-reduces, messages of each
    assert plain.data == pytest.approx(2 * 2)  # two sums over all ranks
    split = Layout(tp=2, microbatch=16, sequence_parallel=True)
    assert seconds(with_links(quiet, all_gather=Link(1.0, 0.0)), split).tensor == pytest.approx(4 * 6)
    assert seconds(with_links(quiet, reduce_scatter=Link(1.0, 0.0)), split).tensor == pytest.approx(4 * 4)
    ring = seconds(with_links(quiet, send=Link(1.0, 0.0)), Layout(cp=4, microbatch=16))
    assert ring.context == pytest.approx(4 * 3 * 3)  # layers, turns, once forward and twice backward
    stages = seconds(with_links(quiet, send=Link(1.0, 0.0)), Layout(pp=2, num_microbatches=4))
    assert stages.boundaries == pytest.approx(4 * 2)
    experts = seconds(with_links(quiet, send=Link(1.0, 0.0)), Layout(dp=2, ep=2, microbatch=8), MIXED)
    assert experts.expert == pytest.approx(4 * 4)  # dispatch and combine each way


def test_messages_inside_a_layer_wait_for_the_last_rank(quiet):
    waiting = replace(quiet, ranks={n: replace(one, waits=1.0) for n, one in quiet.ranks.items()})
    assert seconds(waiting, Layout(tp=2, microbatch=16)).tensor == pytest.approx(4 * 4)
    assert seconds(waiting, Layout(pp=2, num_microbatches=4)).boundaries == pytest.approx(4 * 2)
    assert seconds(waiting, Layout(dp=2, microbatch=8)).total == pytest.approx(
        seconds(quiet, Layout(dp=2, microbatch=8)).total
    )


def test_gradients_travel_in_four_bytes(quiet):
    per_byte = with_links(quiet, all_reduce=Link(0.0, 1.0), reduce_scatter=Link(0.0, 1.0), all_gather=Link(0.0, 1.0))
    numbers = parameters_on_stage(GPT, Layout()).total
    for zero, halves in ((0, 2), (1, 2), (3, 3)):
        layout = Layout(dp=2, microbatch=8, zero=zero)
        assert seconds(per_byte, layout).data == pytest.approx(halves / 2 * 4 * numbers, rel=1e-3)


def test_beyond_what_was_measured_messages_slow_down_in_proportion(calibration):
    four, eight = (link_of(as_accelerator(calibration, ranks=ranks), "send") for ranks in (4, 8))
    assert eight == pytest.approx(tuple(2 * one for one in four))


def test_recomputation_repeats_the_forward_and_its_messages(quiet):
    slow = with_links(quiet, all_reduce=Link(1.0, 0.0))
    kept, again = (seconds(slow, Layout(tp=2, microbatch=16, recompute=way)) for way in ("none", "full"))
    assert again.tensor == pytest.approx(kept.tensor * 3 / 2)
    assert again.compute > kept.compute


def test_float32_is_for_this_cpu_and_16_bits_for_gpus(calibration):
    half = replace(GPT, number_bytes=2)
    assert as_trained(half, as_accelerator(calibration)) == GPT and as_trained(half, ACCELERATORS["h100"]) == half
    with pytest.raises(ValueError, match="only 16-bit peaks of h100 are known"):
        step_seconds(GPT, Layout(), Setup(ACCELERATORS["h100"]))
    with pytest.raises(ValueError, match="no fp8"):
        step_seconds(GPT, Layout(), Setup(as_accelerator(calibration), fp8=True))
    with pytest.raises(ValueError, match="number_bytes = 3: use 2 for bf16 or 4"):
        replace(GPT, number_bytes=3)


# ---- The command-line programs of lab 1: they explain themselves, and what they predict is what they measure. --------

LAB = Path(__file__).parents[3] / "labs" / "lab01-parallelism-sim"
PROGRAMS = ["dp_simulation", "tp_simulation", "pp_simulation", "memory_calculator"]


def lab(name, *options):
    typed = [sys.executable, str(LAB / f"{name}.py"), *options]
    return subprocess.run(typed, capture_output=True, text=True, check=False, timeout=150)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_explains_itself(name):
    done = lab(name, "--help")
    assert done.returncode == 0 and "Options" in done.stdout


def test_memory_without_measuring():
    done = lab("memory_calculator", "--no-measure", "--model", "llama2-7b")
    assert done.returncode == 0 and done.stdout.count("none") == 4
    assert "16 bytes per parameter before ZeRO: weight 2, gradient 2, Adam 12" in done.stdout
    assert "`shardlab memory` counts 18 because it sums gradients over microbatches in fp32" in done.stdout
    assert "did you mean gpt2?" in lab("memory_calculator", "--no-measure", "--model", "gpt-9").stderr.replace(
        "\n", " "
    )


@pytest.mark.slow
def test_tensor_parallel_traffic_is_as_predicted(calibration_file):
    done = lab("tp_simulation", "--ranks", "2", "--calibration", str(calibration_file))
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", done.stdout)[0]
    assert predicted == measured == str(2 * 4 * 512 * 384)  # two all-reduces of fp32 on two ranks
    assert float(done.stdout.split("one rank: ")[1].split()[0]) < 1e-5


def test_a_bad_calibration_is_answered_with_a_sentence(calibration_file):
    cases = ((["--calibration", "none.json"], "no calibration in"), (["--ranks", "8"], "8 ranks were not"))
    for options, sentence in cases:
        typed = ["--calibration", str(calibration_file), *options]
        done = lab("dp_simulation", *typed)
        assert done.returncode == 2 and sentence in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_picture_without_a_folder_is_refused_before_anything_is_measured(name, tmp_path):
    done = lab(name, "--figure", str(tmp_path / "nowhere" / "picture.png"))
    assert done.returncode == 2 and not done.stdout and "there is no folder" in done.stderr


@pytest.mark.slow
def test_figures_are_written_and_put_in_words(calibration_file, tmp_path):
    here = ("--calibration", str(calibration_file))
    for name, options, words in (
        ("tp_simulation", here, "of messages"),
        ("pp_simulation", (*here, "--ranks", "2", "--compute", "32"), "measured time"),
        ("memory_calculator", ("--no-measure",), "ZeRO-3, recompute full"),
    ):
        done = lab(name, *options, "--figure", str(tmp_path / f"{name}.png"))
        assert "In words: " in done.stdout and words in done.stdout, done.stderr
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_data_parallel_traffic_and_the_bubble_are_as_predicted(calibration_file):
    printed = lab("dp_simulation", "--calibration", str(calibration_file)).stdout
    predicted, measured = re.findall(r"bytes sent by a rank\s+(\d+)\s+(\d+)", printed)[0]
    assert predicted == measured
    parts = [float(predicted) for predicted, _ in re.findall(r", ms\s+([\d.]+)\s+([\d.]+)", printed)]
    assert parts[2] == pytest.approx(parts[0] + parts[1], abs=0.02)  # compute + messages = step
    simulated, real = re.findall(r"seconds\s+([\d.]+)\s+([\d.]+)", lab("pp_simulation").stdout)[0]
    assert float(simulated) <= float(real) < 1.5 * float(simulated)
