"""Recorded runs of the installed Megatron: their contents, and faults of this machine that cost no points."""

import json
import signal
import time

import pytest
from shardlab.ranks.warm import WorkerLost

from autograder import traces
from autograder.checks.base import Reply
from autograder.traces import child as recording
from autograder.traces import layouts, places, trace
from autograder.weeks.week05_tensor_parallel import reading

LAYOUT = traces.TensorParallel(world=4, tp=2, blocks=1, s=3, b=1, h=8, f=16, vocabulary=12)


@pytest.fixture(autouse=True)
def nothing_cached():
    recording._record_all.cache_clear()
    yield
    recording._record_all.cache_clear()


def test_every_place_is_in_the_installed_files():
    found = [place for place in vars(places).values() if isinstance(place, trace.Place)]
    assert len(found) >= 5
    for place in found:
        first, last = place.lines
        assert place.text in place.path.read_text().splitlines()[first - 1] and last >= first
        assert place.source().lstrip().startswith(f"{first} ")


def test_a_place_that_this_release_lacks_is_named():
    with pytest.raises(trace.SourceNotFound, match=r"no line 'grad = 0'; the course uses megatron-core==0\.16\.1"):
        trace.Place("tensor_parallel/layers.py", "RowParallelLinear.forward", "grad = 0").source()
    with pytest.raises(trace.SourceNotFound, match="has no nowhere"):
        trace.Place("tensor_parallel/layers.py", "nowhere", "x").source()


def test_the_next_call_after_a_visit():
    recorded = traces.record(LAYOUT, 3, places.LINEAR)
    after = recorded.next_after(places.GRAD_INPUT, 2)
    assert after is not None and after.file == "tensor_parallel/layers.py" and after.ranks == (2, 3)
    assert recorded.next_after(places.GRAD_INPUT, 4) is None
    assert "reached: grad_input = grad_output.matmul(weight)" in str(recorded)


def test_one_child_serves_many_layouts_and_each_is_run_once():
    traces.record(LAYOUT, 0)
    began, before = time.perf_counter(), dict(recording._children)
    first = traces.record(LAYOUT, 1, places.LINEAR)
    assert time.perf_counter() - began < 5
    assert traces.record(LAYOUT, 1, places.LINEAR) is first
    assert recording._children == before


def judged(answer):
    check = reading.CHECK
    reply = Reply([{"answers": [{"value": {"plain": answer}}]}], None, 0, "")
    case = check.public[0]
    return check.judge(case, None, reply)


def test_without_megatron_nothing_is_graded(monkeypatch):
    monkeypatch.setattr(trace, "find_spec", lambda name: None)
    trace.folder.cache_clear()
    try:
        with pytest.raises(WorkerLost, match=r"megatron-core is not installed here: pip install megatron-core==0\.16"):
            judged({"ranks": [0]})
        with pytest.raises(trace.SourceNotFound, match="not installed"):
            places.MATMUL.source()
    finally:
        trace.folder.cache_clear()


def test_a_layout_that_megatron_refuses_is_a_fault_with_its_reason():
    odd = traces.TensorParallel(world=4, tp=3, blocks=1, s=3, b=1, h=9, f=9, vocabulary=9)
    with pytest.raises(traces.TraceLost, match=r"Megatron did not run .*world_size \(4\) is not divisible by 3"):
        traces.record(odd, 0)


def test_a_child_that_does_not_answer_is_ended(monkeypatch):
    traces.record(LAYOUT, 0)
    process = next(iter(recording._children.values()))
    monkeypatch.setattr(recording, "LIMIT_SECONDS", 0.5)
    monkeypatch.setattr(recording, "_started", lambda: process)
    process.send_signal(signal.SIGSTOP)
    began = time.perf_counter()
    with pytest.raises(traces.TraceLost, match=r"within 0\.5 seconds"):
        traces.record(LAYOUT, 1)
    assert time.perf_counter() - began < 5 and process.poll() is not None


@pytest.mark.slow  # starts another child
def test_a_child_that_has_ended_is_started_again():
    traces.record(LAYOUT, 0)
    process = next(iter(recording._children.values()))
    process.kill()
    assert traces.record(LAYOUT, 1).calls and process.poll() is not None


def test_a_layout_survives_json():
    for layout in (LAYOUT, traces.DistributedOptimizer(2, (8, 4), 10, overlap=True)):
        assert layouts.decode(json.loads(json.dumps(layouts.encode(layout)))) == layout
