"""The outputs of a training run (lines, rows, events, a trace, a curve), and measurements next to formulas."""

import errno
import json
import time
from pathlib import Path

import pytest
import shardlab
from matplotlib.figure import Figure
from shardlab.costs.models.flops import model_flops_per_token
from shardlab.costs.models.model import num_parameters
from shardlab.figures import draw_losses
from shardlab.train import LoggedStep, build, read_log
from shardlab.train.logs import FILE, EventWriter, Logs, entries, runs_of
from shardlab.train.loop import Training
from shardlab.train.measure import mfu, peak_flops

from tests.shardlab.train.small import EXPERTS, recipe, trained

LOG = {"measure": 1, "tensorboard": True, "figure": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The output of two runs on two ranks, the second of which resumes the first."""
    folder = tmp_path_factory.mktemp("run")
    one = {"folder": str(folder)}
    trained(recipe({"pp": 2}, run=one | {"until": 2}, log=LOG), 2)
    trained(recipe({"dp": 2}, run=one, log=LOG | {"measure": 0}), 2)
    return folder


def test_rows_go_on_over_a_resume(folder):
    rows = read_log(folder)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(row["tokens"] == 8 * 16 and row["seconds"] > 0 and row["memory"] > 2**20 for row in rows)
    assert [row["lr"] for row in rows[:2]] == [0.005, 0.01]
    assert [len(run) for run in runs_of(folder)] == [2, 2]
    assert any(entry.get("checkpoint") == 2 and entry["stall"] > 0 for entry in entries(folder))


def test_files_for_tensorboard_perfetto_and_eyes(folder):
    assert len(list((folder / "tensorboard").iterdir())) == 2
    assert (folder / "loss.svg").read_text().lstrip().startswith("<?xml")
    events = json.loads((folder / "step-trace.json").read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert tracks == {"rank 0", "rank 1", "rank 0, messages", "rank 1, messages"}
    slots = [event["name"] for event in events if event.get("cat") in ("F", "B") and event["tid"] == 1]
    assert slots == ["1F0", "1B0", "1F1", "1B1"]
    assert any(event["name"] == "send" for event in events) and all(event.get("dur", 0) >= 0 for event in events)


def test_a_line_that_was_cut_short_is_left_out(folder):
    before = read_log(folder)
    with (folder / FILE).open("a") as file:
        file.write('{"step": 5, "lo')
    assert read_log(folder) == before


def test_a_log_that_cannot_be_written_costs_no_step(tmp_path, capsys, monkeypatch):
    logs = Logs(tmp_path, rank=0, events=True)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    monkeypatch.setattr(logs._events, "scalars", full)
    logs.row(LoggedStep(1, 2.0, 1.0, 0.1, 128, 0.5, None, 2**20), steps=4, show=True)
    told = capsys.readouterr()
    assert "step 1/4  loss 2.0000" in told.out and "256 tokens/s" in told.out
    assert told.err.count("No space left on device") == 2


# ---- bytes, memory, MFU ----------------------------------------------------------------------------------------------


def measured(one):
    training = Training(one, quiet=True)
    for _ in range(2):
        training.one_step()
    return training.measurement.by_rank


CASES = [
    ({"dp": 2}, {}, {}, "dp"),
    ({"dp": 2}, {"zero": 1}, {}, "dp"),
    ({"dp": 2}, {"zero": 2}, {}, "dp"),
    ({"cp": 2}, {"zero": 1, "context": "ulysses"}, {}, ""),
    ({"pp": 2}, {}, {}, "pp"),
    ({"pp": 2}, {"schedule": "zbv"}, {}, "pp"),
    ({"tp": 2}, {}, {}, "tp"),
    ({"dp": 2, "pp": 2}, {"zero": 1}, {}, "dp pp"),
]


@pytest.mark.parametrize(("mesh", "step", "experts", "exact"), CASES, ids=str)
def test_bytes_by_axis_are_the_formulas(mesh, step, experts, exact):
    """Except for the few numbers of agreement, loss and norm, which are sent in the world group."""
    ranks = 2 if sum(size > 1 for size in mesh.values()) == 1 else 4
    one = recipe(mesh, step=step, experts=experts, model={"tied": False}, log={"measure": 1})
    by_rank = shardlab.run(measured, one, ranks=ranks, timeout=60, observe=False)[0]
    assert len(by_rank) == ranks
    for found in by_rank:
        for name in exact.split():
            few = 1000 if len(mesh) == 1 else 0  # a single axis is the world group, which also sends these numbers
            assert found.predicted[name] <= found.sent[name] <= found.predicted[name] + few, (name, found)


def test_memory_is_counted_by_rank():
    one = recipe({"dp": 2}, step={"zero": 1}, log={"measure": 1})
    halves = shardlab.run(measured, one, ranks=2, timeout=60, observe=False)[0]
    [whole] = shardlab.run(measured, recipe(log={"measure": 1}), ranks=1, timeout=60, observe=False)[0]
    numbers = num_parameters(build.transformer_of(recipe()))
    assert whole.states == pytest.approx(numbers * 12, rel=0.01)  # weights and two moments
    for half in halves:
        assert half.states == pytest.approx(
            numbers * (4 + 8 / 2), rel=0.01
        )  # weights are their own masters; half of the moments
        assert half.states < half.peak < whole.peak + numbers * 4


@pytest.mark.parametrize(
    "sections",
    [{}, {"model": {"gated": True, "rope": True}}, {"model": {"tied": False}}, {"model": {"kv_heads": 0}}],
    ids=str,
)
def test_the_formulas_model_is_the_model(sections):
    one = recipe(**sections)
    model = build.LayerByLayer(build.config_of(one)).whole()
    assert num_parameters(build.transformer_of(one)) == sum(p.numel() for p in model.parameters())


def test_the_mfu_is_a_share_of_a_peak(calibration_file, monkeypatch):
    monkeypatch.setenv("SHARDLAB_CALIBRATION", str(calibration_file))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    peak, told = peak_flops(recipe(), 8)
    assert peak == 2 * 1.5e11 and "measured here" in told
    assert peak_flops(recipe(step={"dtype": "float64"}), 8)[0] == 0.0
    assert peak_flops(recipe(log={"peak_flops": 1e12}), 8) == (8e12, "given in log.peak_flops")
    model = build.transformer_of(recipe(experts=EXPERTS))
    assert mfu(model, 100, 2.0, 1e9) == pytest.approx(100 * model_flops_per_token(model) / 2e9)
    assert mfu(model, 100, 2.0, 0.0) is None
    monkeypatch.setenv("SHARDLAB_CALIBRATION", str(calibration_file) + ".none")
    assert "run `shardlab calibrate`" in peak_flops(recipe(), 8)[1]


def test_the_curve_of_two_runs():
    ax = Figure().subplots()
    words = draw_losses(ax, [[(1, 5.0), (2, 4.0)], [(2, 4.0), (3, 3.5)]])
    assert words == "In words: the loss goes from 5.000 to 3.500 in 3 steps, in 2 runs; each later run begins at a dot."
    assert "from 5.00 to 3.50" in ax.get_title(loc="left")
    assert draw_losses(ax, [[(1, 5.0), (2, 4.0)]] * 2).endswith("in 2 steps, in 2 runs that begin together.")
    with pytest.raises(ValueError, match="at least one run"):
        draw_losses(ax, [[]])


# tensorboard 2.20: RecordWriter on Event(wall_time=1.5, step=300, summary=[loss 2.25, rate -1e-3])
THEIRS = (
    "2800000000000000ff70164a09000000000000f83f10ac022a1a0a0b0a046c6f737315000010400a0b0a0472617465156f1283ba570b2620"
)


def test_a_file_is_tensorboards_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1.5)
    writer = EventWriter(tmp_path / "tensorboard")
    writer.scalars(300, {"loss": 2.25, "rate": -1e-3})
    [path] = (tmp_path / "tensorboard").iterdir()
    content = path.read_bytes()  # flushed, though the file is open
    writer.close()
    assert path.name.startswith("events.out.tfevents.") and b"brain.Event:2" in content[:60]
    assert content.endswith(bytes.fromhex(THEIRS))


def test_a_second_run_gets_a_second_file(tmp_path, monkeypatch):
    for moment in (1.5, 2.5):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        EventWriter(tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 2
