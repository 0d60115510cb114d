"""How measurements become a calibration, and the command. The machine itself is measured once, but not judged."""

import numpy as np
import pytest
import torch
from shardlab.commands.calibration.compute import _least_squares, seconds_of, training_pass
from shardlab.commands.calibration.links import links_of, sharing_of, slowest
from shardlab.commands.calibration.measure import SIZES, bookkeeping_of, calibrate
from shardlab.commands.cli import app
from shardlab.costs.clock.calibration import read_calibration
from shardlab.costs.traffic import all_gather_seconds, all_reduce_seconds
from shardlab.model.gpt import GPT
from typer.testing import CliRunner

ALPHA, BETA = 2e-4, 1.5e-9


def shardlab(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400", "TERM": "dumb"})


def rounds_between(ranks):
    """What ranks of a machine with exactly ALPHA and BETA would measure, with one round in three disturbed."""
    found = {}
    for num_bytes in (2**12, 2**16, 2**21):
        link = {"alpha": ALPHA, "beta": BETA}
        gather = all_gather_seconds(ranks, num_bytes, **link)
        send = 2 * (ALPHA + BETA * num_bytes / ranks)
        reduce = all_reduce_seconds(ranks, num_bytes, **link)
        for kind, seconds in (
            ("all_reduce", reduce), ("reduce_scatter", gather), ("all_gather", gather), ("send", send)
        ):  # fmt: skip
            found[kind, num_bytes] = [seconds, 9 * seconds, seconds]
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_links_are_found_again(ranks):
    slow = rounds_between(ranks)
    quick = {key: [seconds / 2 for seconds in rounds] for key, rounds in slow.items()}
    for link in links_of([quick] * (ranks - 1) + [slow]).values():
        assert (link.alpha, link.beta) == pytest.approx((ALPHA, BETA), rel=1e-6)


def test_a_round_lasts_as_long_as_its_slowest_rank():
    assert slowest([{"compute": [1.0, 5.0, 1.0]}, {"compute": [3.0, 1.0, 2.0]}], "compute") == 3.0


def shared(beside, alone=2.0, message=2.0, after=5.0):
    return [{"alone": [alone], "message": [message], "after": [after], "beside": [beside]}] * 2


@pytest.mark.parametrize(("beside", "share"), [(5.0, 0.0), (3.0, 1.0), (4.0, 0.5), (9.0, 0.0), (2.0, 1.0)])
def test_what_is_hidden(beside, share):
    assert sharing_of(shared(beside)) == (1.5, share)  # 5 s minus 2 s of message is 1.5 times the 2 s alone


def test_a_machine_that_hiccups_while_one_rank_computes_gives_no_nonsense():
    assert sharing_of(shared(5.0, alone=9.0, message=6.0)) == (0.5, 0.0)  # "after" is shorter than its message


def test_least_squares_leaves_no_constant_negative():
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    assert _least_squares(rows, rows @ np.array([2.0, 3.0])) == pytest.approx([2.0, 3.0])
    first, second = _least_squares(rows, np.array([1.0, 2.0, 4.5]))
    assert first == 0.0 and 1.0 < second < 1.2
    assert _least_squares(rows, -rows[:, 1]) == [0.0, 0.0]


def test_bookkeeping_of_tensors_and_parameters():
    small, large = (sum(one.numel() for one in GPT(config).parameters()) for config in SIZES)
    tensors = len(list(GPT(SIZES[0]).parameters()))
    measured = [[tensors * 1e-4 + size * 2e-9 for size in (small, large)], [1e-3, 5e-4], [-1e-3, -2e-3], [0.0, 1e-3]]
    found = bookkeeping_of(measured)
    assert found[0] == pytest.approx((1e-4, 2e-9))
    assert found[1] == (1e-3 / tensors, 0.0) and found[2] == (0.0, 0.0)
    assert found[3] == (0.0, 1e-3 / (large - small))


def test_a_pass_forgets_the_gradients_before():
    layer = torch.nn.Linear(3, 2)
    one = training_pass(layer, lambda: layer(torch.ones(1, 3)).sum())
    one()
    once = layer.weight.grad.clone()
    one()
    assert torch.equal(layer.weight.grad, once)


def test_short_calls_are_measured_many_at_a_time():
    calls = []
    seconds = seconds_of(lambda: calls.append(1), torch.device("cpu"), rounds=2)
    assert len(calls) > 50 and seconds > 0


@pytest.mark.slow
def test_the_command_measures_and_its_file_is_read(tmp_path):
    path = tmp_path / "deep" / "here.json"
    done = shardlab("calibrate", "--ranks", "2", "--device", "cpu", "--out", str(path))
    assert done.exit_code == 0 and f"wrote {path}" in done.output
    here = read_calibration(path)
    assert list(here.ranks) == [2] and here.transport == "gloo"
    assert here.matmul["float32"][1024] > 5 * here.matmul["float32"][16]  # a small product is all launch overhead
    assert here.ranks[2].links["all_reduce"].alpha > 0
    assert f"{max(here.matmul['float32'].values()) / 1e9:.1f} GFLOP/s" in done.output


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("--ranks", "two"), "use a list such as 2,4"),
        (("--ranks", "0"), "use numbers from 1 to 64"),
        (("--ranks", "999"), "use numbers from 1 to 64"),
        (("--device", "tpu"), "use cpu or cuda"),
        (("--out", "/proc/none/here.json"), "cannot write"),
    ],
)
def test_bad_input_is_answered_before_anything_is_measured(typed, sentence, tmp_path):
    out = () if "--out" in typed else ("--out", str(tmp_path / "here.json"))
    done = shardlab("calibrate", *typed, *out)
    assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output
    assert not (tmp_path / "here.json").exists()


def test_one_rank_is_not_together():
    with pytest.raises(ValueError, match="use 2 or more"):
        calibrate([1])


def test_a_gpu_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ValueError, match="use cpu"):
        calibrate([2], device="cuda")
