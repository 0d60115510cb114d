"""A calibration of this machine, and the labs that read one."""

import json
from dataclasses import asdict, replace

import pytest
from shardlab.commands.cli import app
from shardlab.costs.clock.calibrated import (
    SmallGPT,
    adam_step_seconds,
    collective_seconds,
    gpt_pass_seconds,
    linear_layer_seconds,
    matmul_seconds,
    mlp_data_parallel_seconds,
    mlp_tensor_parallel_seconds,
    moved_seconds,
    rate_at,
    with_overlap,
    zero_step_seconds,
)
from shardlab.costs.clock.calibration import Together, read_calibration, write_calibration
from shardlab.costs.clock.setup import FITTED, NVLINK
from shardlab.costs.machines import as_accelerator, find_accelerator
from shardlab.costs.traffic import all_gather_seconds, all_reduce_seconds
from typer.testing import CliRunner

from benchmarks import calibrated_labs as labs

# ---- Calibration files, what is wrong with bad ones, and the predictions that read them. -----------------------------

MODEL = SmallGPT(layers=4, hidden=128, batch=4)
VECTORS = [400_000, 300_000, 100_000]


def test_a_file_is_read_as_it_was_written(calibration, calibration_file):
    assert read_calibration(calibration_file) == calibration
    assert not list(calibration_file.parent.glob("*.new"))


def changed(**fields):
    return lambda data: data | fields


def of_two_ranks(**fields):
    return lambda data: data | {"ranks": {"2": data["ranks"]["2"] | fields}}


def without(name):
    return lambda data: {key: value for key, value in data.items() if key != name}


BAD = [
    (lambda data: [], "is not a JSON object"),
    (changed(format=99), "its format is 99"),
    (without("memory"), "lacks memory"),
    (changed(transport="nccl"), "use gloo on cpu"),
    (changed(device="abacus"), "use gloo on cpu"),
    (changed(cores=0), "cores = 0 is not a number above 0"),
    (changed(cores=True), "not a number above 0"),
    (changed(measured="yesterday"), "yesterday"),
    (changed(matmul={}), "no rate of fp32 matmuls"),
    (changed(matmul={"float32": {"64": -1.0}}), "matmul float32 64 = -1.0"),
    (changed(matmul={"float32": {"64": float("nan")}}), "matmul float32 64 = nan"),
    (changed(matmul={"float32": {"wide": 1.0}}), "wide"),
    (changed(adam_seconds=[1.0]), "adam_seconds has 1 numbers, not 3"),
    (changed(bookkeeping=3), "is not a calibration"),
    (changed(bookkeeping=[[1.0, 1.0]]), "bookkeeping has 1 pairs, not 4"),
    (changed(bookkeeping=[[1.0, -1.0]] * 4), "bookkeeping = -1.0"),
    (changed(ranks={"1": {}}), "ranks lack slowdown"),
    (of_two_ranks(hidden=1.5), "hidden = 1.5 is not a share"),
    (of_two_ranks(slowdown=0.0), "slowdown of 2 ranks = 0.0"),
    (of_two_ranks(slowdown=0.1), "cannot each take only 0.1 times as long"),
    (of_two_ranks(links={}), "lack all_reduce"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_file_at_odds_with_itself_is_refused(change, sentence, calibration_file):
    calibration_file.write_text(json.dumps(change(json.loads(calibration_file.read_text()))))
    with pytest.raises(ValueError) as error:
        read_calibration(calibration_file)
    assert sentence in str(error.value) and "shardlab calibrate --out" in str(error.value)


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_a_file_that_is_cut_off(cut, calibration_file):
    text = calibration_file.read_text()
    calibration_file.write_text(text[:cut])
    with pytest.raises(ValueError, match=r"truncated.*shardlab calibrate"):
        read_calibration(calibration_file)


def test_a_file_that_is_missing_or_no_file(tmp_path):
    with pytest.raises(ValueError, match="there is no calibration"):
        read_calibration(tmp_path / "none.json")
    with pytest.raises(ValueError, match="cannot be read"):
        read_calibration(tmp_path)


def test_what_was_measured_comes_out_of_the_accelerator(calibration):
    here = as_accelerator(calibration)
    assert here.bf16_flops * FITTED.matmul(here.generation) == pytest.approx(1.5e11 / 1.1)  # of float32
    assert here.measured is calibration
    assert here.memory_bandwidth * FITTED.memory == pytest.approx(2e10 / 1.1)
    assert here.nvlink * NVLINK.share == pytest.approx(1e9) == here.network * FITTED.network
    assert here.per_node == 2 and here.memory_bytes == 8 * 2**30
    gpu = as_accelerator(replace(calibration, device="cuda", transport="nccl"))
    assert gpu.bf16_flops * FITTED.matmul("cuda") == pytest.approx(6e11 / 1.1) and gpu.measured is None


@pytest.mark.parametrize(("ranks", "slowdown"), [(1, 1), (2, 1.1), (3, 1.1 * 3 / 2), (4, 2.2), (8, 2.2 * 2)])
def test_more_ranks_than_cores_take_turns(calibration, ranks, slowdown):
    """Plans used to assume one core per rank: four ranks on two cores took twice as long as planned."""
    here = as_accelerator(calibration, ranks=ranks)
    assert here.bf16_flops * FITTED.matmul("cpu") == pytest.approx(1.5e11 / slowdown)
    assert here.memory_bandwidth * FITTED.memory == pytest.approx(2e10 / slowdown)
    assert here.per_node == ranks and here.memory_bytes == 16 * 2**30 / max(ranks, 2)


def test_gpus_beyond_those_that_were_measured_stand_in_further_servers(calibration):
    gpus = replace(calibration, device="cuda", transport="nccl", cores=4)
    assert as_accelerator(gpus, ranks=64) == as_accelerator(gpus) and as_accelerator(gpus).per_node == 4


def test_this_machine_as_an_accelerator(calibration, calibration_file, tmp_path, monkeypatch):
    assert find_accelerator(str(calibration_file)) == as_accelerator(calibration)
    monkeypatch.setenv("SHARDLAB_CALIBRATION", str(calibration_file))
    assert find_accelerator("here") == as_accelerator(calibration)
    sizes = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 256, "vocab": 1000, "sequence": 128}
    (tmp_path / "mine.json").write_text(json.dumps(sizes))
    typed = ["plan", "--model", str(tmp_path / "mine.json"), "--gpu", "here", "--gpus", "2", "--tokens-per-batch=1024"]
    done = CliRunner().invoke(app, typed, env={"COLUMNS": "300"})
    assert done.exit_code == 0 and "on 2 here" in done.stdout
    held = CliRunner().invoke(app, ["memory", "--model", str(tmp_path / "mine.json"), "--gpu", "here"])
    assert held.exit_code == 0 and "16 bytes per parameter before ZeRO: weight 4, gradient 4, Adam 8" in held.stdout
    monkeypatch.setenv("SHARDLAB_CALIBRATION", str(tmp_path / "none.json"))
    refused = CliRunner().invoke(app, typed, env={"COLUMNS": "300", "TERM": "dumb"})
    assert refused.exit_code == 2 and "there is no calibration in" in refused.output


def test_rates_between_the_sizes_measured():
    rates = {16: 1.0, 64: 3.0, 1024: 7.0}
    assert [rate_at(rates, size) for size in (1, 16, 32, 64, 256, 1024, 9999)] == [1, 1, 2, 3, 5, 7, 7]


def test_work_in_seconds(calibration):
    rates = calibration.matmul["float32"]
    assert matmul_seconds(rates, 1024, 1024, 1024) == pytest.approx(2 * 1024**3 / 1.5e11)
    assert matmul_seconds(rates, 64, 8, 512) == pytest.approx(2 * 64**3 / 4e10)
    assert moved_seconds(calibration, 2**26, 3) == pytest.approx(3 * 2**26 / 2e10)
    assert adam_step_seconds(calibration, 10, 1e6) == pytest.approx(1e-4 + 1e-3 + 3e-3)
    passes = linear_layer_seconds(calibration, 64, 64)
    assert passes.forward == passes.input_gradient < passes.weight_gradient
    each = 1e-4 + 64 * 64 * (1e-8 + 2e-9)
    assert 3 * passes.forward == pytest.approx(3 * matmul_seconds(rates, 64, 64, 64) + each)


def test_a_gpt_grows_with_its_layers_and_batch(calibration):
    once, layer, number = calibration.pass_seconds
    one, two = (gpt_pass_seconds(calibration, replace(MODEL, layers=layers)) for layers in (1, 2))
    empty = replace(calibration, pass_seconds=(0.0, 0.0, 0.0))
    products = [gpt_pass_seconds(empty, replace(MODEL, layers=layers)) for layers in (1, 2)]
    assert two - one - (products[1] - products[0]) == pytest.approx(layer + number * 4 * 64 * 128)
    assert 2 * one - two > once - 1e-9
    assert MODEL.tensors == 52


def test_collectives_take_what_a_ring_takes(calibration):
    link = {"alpha": 1e-3, "beta": 1e-9}
    assert collective_seconds(calibration, "all_reduce", 4, 1e6) == all_reduce_seconds(4, 1e6, **link)
    assert collective_seconds(calibration, "all_gather", 4, 1e6) == all_gather_seconds(4, 1e6, **link)
    assert collective_seconds(calibration, "all_gather", 1, 1e6) == 0.0
    with pytest.raises(ValueError, match=r"3 ranks were not measured here: use 1, 2, 4"):
        collective_seconds(calibration, "all_reduce", 3, 1e6)


def test_only_what_may_hide_is_hidden():
    kept, half, all_hidden = (with_overlap(Together(1.0, hidden, {}), 10.0, 1.0, 5.0) for hidden in (0.0, 0.5, 1.0))
    assert (kept, half, all_hidden) == (15.0, 13.0, 11.0)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("stage", range(4))
def test_a_step_of_zero_is_its_parts(stage, ranks, calibration):
    slowdown, total = calibration.of_ranks(ranks).slowdown, sum(VECTORS)
    owned, tensors = (total, MODEL.tensors) if stage == 0 else (total / ranks, len(VECTORS))
    tensor, parameter = calibration.bookkeeping[stage]
    compute = gpt_pass_seconds(calibration, MODEL) + tensor * MODEL.tensors + parameter * total
    compute += adam_step_seconds(calibration, tensors, owned)
    kinds = {0: ["all_reduce"], 3: ["reduce_scatter", "all_gather", "all_gather"]}.get(
        stage, ["reduce_scatter", "all_gather"]
    )
    messages = sum(collective_seconds(calibration, kind, ranks, 4 * size) for kind in kinds for size in VECTORS)
    if stage == 3:  # the rest, the last vector, is gathered once
        messages -= collective_seconds(calibration, "all_gather", ranks, 4 * VECTORS[-1])
    step = zero_step_seconds(calibration, ranks, stage, MODEL, VECTORS)
    assert step == pytest.approx(compute * slowdown + messages)  # nothing is hidden on this machine

    hidden = {n: replace(one, hidden=1.0) for n, one in calibration.ranks.items()}
    best = zero_step_seconds(replace(calibration, ranks=hidden), ranks, stage, MODEL, VECTORS)
    assert compute * slowdown < best and (best == pytest.approx(step) if stage == 1 else best < step)


def test_another_stage_is_refused(calibration):
    with pytest.raises(ValueError, match="use 0"):
        zero_step_seconds(calibration, 2, 4, MODEL, VECTORS)


@pytest.mark.parametrize("ranks", [2, 4])
def test_lab_1_shares_work_and_sends_what_its_formulas_say(ranks, calibration):
    compute, messages = mlp_data_parallel_seconds(calibration, ranks, 256, 512)
    assert messages == all_reduce_seconds(ranks, 4 * 2 * (512 * 512 + 512), **link_of(calibration, ranks))
    alone, _ = mlp_data_parallel_seconds(calibration, 1, 256, 512)
    assert compute == pytest.approx(alone * calibration.of_ranks(ranks).slowdown)
    compute, messages = mlp_tensor_parallel_seconds(calibration, ranks, 64, 128)
    assert messages == 2 * all_reduce_seconds(ranks, 4 * 64 * 128, **link_of(calibration, ranks))
    alone, _ = mlp_tensor_parallel_seconds(calibration, 1, 64, 128)
    assert alone / ranks < compute / calibration.of_ranks(ranks).slowdown < alone


def link_of(calibration, ranks):
    return calibration.of_ranks(ranks).links["all_reduce"]._asdict()


def test_all_fields_travel(calibration, tmp_path):
    write_calibration(calibration, tmp_path / "a.json")
    assert set(json.loads((tmp_path / "a.json").read_text())) == {"format", *asdict(calibration)}


# ---- The benchmark of the labs: predictions scale with the machine's current speed, and every lab is included. -------

CASES = {case.name: case for case in labs.cases()}
PASS = SmallGPT(labs.TOGETHER.layers, labs.TOGETHER.hidden, labs.TOGETHER_BATCH)


def test_every_lab_on_every_number_of_ranks():
    assert len(CASES) == 16 and {case.ranks for case in CASES.values()} == {2, 4}
    assert sum("ZeRO" in name for name in CASES) == 6


@pytest.fixture
def moment(calibration, monkeypatch):
    """Ranks on a machine that is `times` as slow as when it was calibrated, with the same sharing."""

    def at(times, ranks):
        alone = times * gpt_pass_seconds(calibration, PASS)
        compute = alone * calibration.of_ranks(ranks).slowdown
        message = times * collective_seconds(calibration, "all_reduce", ranks, labs.MESSAGE_BYTES)
        rounds = {"alone": [alone], "compute": [compute], "message": [message], "after": [compute + message]}
        rounds["beside"] = rounds["after"]
        monkeypatch.setattr(labs.shardlab, "run", lambda *_, ranks, **__: [rounds] * ranks)
        return labs.now(calibration, ranks)

    return at


@pytest.mark.parametrize("name", CASES)
def test_a_machine_half_as_fast_takes_twice_as_long(name, calibration, moment):
    case = CASES[name]
    usual, slow = case.predict(moment(1.0, case.ranks)), case.predict(moment(2.0, case.ranks))
    assert usual == pytest.approx(case.predict(calibration))
    assert slow == pytest.approx(usual if "asleep" in name else 2 * usual)  # sleeping takes as long on any machine


@pytest.mark.parametrize("name", [name for name in CASES if "asleep" not in name])
def test_ranks_that_share_cores_take_longer(name, calibration):
    case = CASES[name]
    crowded = {n: Together(2 * one.slowdown, one.hidden, one.links) for n, one in calibration.ranks.items()}
    assert case.predict(calibration) < case.predict(replace(calibration, ranks=crowded)) < 2 * case.predict(calibration)
    assert case.flops / 1.5e11 < case.predict(calibration)  # no lab beats the best rate of a product
