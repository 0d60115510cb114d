"""861 steps on one server: read completely, predicted without their times, better than a single utilization."""

import csv
import statistics

import pytest
from shardlab.costs.validation.predictions import predict_seconds
from shardlab.costs.validation.validate import RANK, REGRET, choices, constant_utilisation, errors_of, held_out, table

from benchmarks.single_server import STEPS, covered, read_steps, report


@pytest.fixture(scope="module")
def runs():
    return read_steps()


def test_every_row_is_a_run_of_one_server(runs):
    assert len(runs) == 861 == sum(1 for _ in STEPS.open()) - 1
    first = runs[0]
    assert (first.layout.pp, first.layout.num_microbatches, first.model.layers) == (2, 2, 24)
    assert first.step_seconds == pytest.approx(0.372160408) and first.family == "pp"
    assert all(run.layout.world <= 8 and run.layout.recompute == "full" for run in runs)
    assert len({run.id for run in runs}) == 861


def test_a_prediction_reads_no_time(runs, tmp_path):
    rows = list(csv.DictReader(STEPS.open(newline="")))[:20]
    with (tmp_path / "faster.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"iteration time (ms)": "1.0"} for row in rows)
    faster = read_steps(tmp_path / "faster.csv")
    assert [predict_seconds(run) for run in faster] == [predict_seconds(run) for run in runs[:20]]


def test_every_family_is_predicted_better_than_by_one_utilisation(runs):
    ours, rival = errors_of(runs, predict_seconds), errors_of(runs, held_out(runs, constant_utilisation))
    for family, errors in ours.by_family.items():
        assert statistics.mean(map(abs, errors)) < statistics.mean(map(abs, rival.by_family[family])) / 2
    assert ours.macro < 0.15


def test_the_report_prints_these_errors_in_the_style_of_the_published_runs(runs):
    printed = report(runs).splitlines()
    ours, rival = errors_of(runs, predict_seconds), errors_of(runs, held_out(runs, constant_utilisation))
    lines = table(ours, rival).splitlines()
    assert {*lines} <= {*printed} and lines[0].split() == ["family", "runs", "error", "bias", "constant", "utilization"]
    families = [line[:10].strip() for line in printed if line[:10].strip() in ours.by_family]
    assert families == sorted(ours.by_family)
    correlation, lost, groups = choices(runs, predict_seconds)
    rank, regret = (next(line.split() for line in printed if line.startswith(name)) for name in (RANK, REGRET))
    assert (
        rank[2] == f"{correlation:.2f}" and regret[2] == f"{lost:.1%}" and any(f"{groups} groups" in x for x in printed)
    )
    assert "missed" not in "".join(printed)
    assert f"{covered(runs):.1%} of the runs are in the 90% interval" in printed[-1] and covered(runs) > 0.85


def test_rows_lie_on_lines_and_leave_no_fixed_cost_of_a_step(runs):
    """As results/README.md says: a + b m in m microbatches. Without dp and pp, a grows with layers."""
    lines: dict[tuple, dict[int, float]] = {}
    for run in runs:
        if run.layout.dp == run.layout.pp == 1:
            of = (run.layout.tp, run.model.hidden, run.layout.microbatch, run.model.layers)
            lines.setdefault(of, {})[run.layout.num_microbatches] = run.step_seconds
    left: dict[tuple, list[tuple[int, float]]] = {}
    for (tp, hidden, _, layers), line in lines.items():
        if len(line) > 2:
            points = sorted(line.items())
            begin, slope = through(points)
            assert all(abs(begin + slope * m - seconds) < 1e-9 for m, seconds in points)
            left.setdefault((tp, hidden), []).append((layers, begin))
    fixed = [through(sorted(points))[0] for points in left.values() if len(dict(points)) > 1]
    assert len(fixed) >= 3 and all(abs(seconds) < 1.5e-3 for seconds in fixed)


def through(points):
    """Intercept and slope of the line through the first and the last point."""
    (x, y), *_, (x_last, y_last) = points
    slope = (y_last - y) / (x_last - x)
    return y - slope * x, slope
