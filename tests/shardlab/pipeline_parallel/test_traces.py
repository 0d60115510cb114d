"""What leaves the package can be read by others, and comes back unchanged."""

import json

import pytest
from oracle import recorded
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe
from shardlab.pipeline_parallel.schedule import parse_slot
from shardlab.pipeline_parallel.simulation import simulate
from shardlab.pipeline_parallel.traces import from_csv, to_csv, to_trace


@pytest.mark.parametrize("name", BUILDERS)
def test_csv_comes_back_unchanged(name):
    schedule = BUILDERS[name](2, 4)
    assert from_csv(to_csv(schedule)) == schedule


@pytest.mark.parametrize("name", BUILDERS)
def test_torch_reads_every_cell(name):
    from torch.distributed.pipelining.schedules import _Action

    for line in to_csv(BUILDERS[name](4, 8)).splitlines():
        for cell in line.split(","):
            assert str(_Action.from_str(cell)) == cell


def test_recorded_orders_can_be_played():
    for file in ("torch", "dualpipe", "zero_bubble"):
        for entry in recorded(file)[::9]:
            schedule = [[parse_slot(text) for text in texts] for texts in entry.texts]
            assert simulate(schedule).makespan == entry.figures["makespan"]


def test_bad_cells_are_named():
    with pytest.raises(ValueError, match="line 2, cell 3: '1X0' is not a slot"):
        from_csv("0F0,0B0\n1F0,,1X0\n")


def test_perfetto_trace_has_a_box_per_slot():
    schedule = dualpipe(2, 4)
    events = json.loads(to_trace(simulate(schedule), seconds_per_unit=1e-3))["traceEvents"]
    boxes = [event for event in events if event["ph"] == "X"]
    assert len(boxes) == sum(len(slots) for slots in schedule)
    assert max(box["ts"] + box["dur"] for box in boxes) == pytest.approx(12 * 1000)
