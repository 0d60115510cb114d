""""""

import sys
from dataclasses import replace

import pytest
import shardlab
from rich.console import Console
from shardlab.model.gpt import GPTConfig
from shardlab.model.router import Choice

from benchmarks import __main__ as command
from benchmarks import composed, experts, long_context, tensor_parallel, times
from benchmarks.row import at_least_times, at_most

# ---- Rows of the benchmarks. -----------------------------------------------------------------------------------------

# ---- Rows say whether a target is met, and the command knows its benchmarks ------------------------------------------


def test_a_bar_of_a_number():
    met, missed = at_most("seconds", 0.2, 0.25, peer=8.0), at_most("seconds", 0.3, 0.25)
    assert (met.met, missed.met) == (True, False)
    assert (met.ratio, missed.peer, missed.ratio) == (40.0, None, None)
    assert at_most("left behind", 0, 0).met


def test_a_bar_of_a_ratio():
    assert at_least_times("seconds", ours=1.25, peer=1.0, times=0.8).met
    assert not at_least_times("seconds", ours=1.3, peer=1.0, times=0.8).met


def test_the_table_shows_what_was_missed():
    console = Console(record=True, width=120)
    console.print(command.as_table([at_most("left behind", 3, 0)]))
    text = console.export_text()
    assert "left behind" in text and "NO" in text


def test_the_command_knows_its_benchmarks(capsys):
    assert {"warm-call", "ring-all-reduce", "thousand-calls", "week-notebooks", "week01-grading"} <= set(command.NAMES)
    with pytest.raises(SystemExit):
        command.main(["no-such-thing"])
    assert "there is no benchmark 'no-such-thing': use " in capsys.readouterr().err


def test_the_quick_group_fits_ten_minutes_and_is_named_like_a_benchmark():
    assert sum(times.LIMITS.values()) <= 600 and set(times.LIMITS) < set(command.in_order([]))
    assert command.in_order(["quick"]) == list(times.LIMITS)
    assert command.in_order(["planner", "quick"])[0] == "planner"
    assert len(command.in_order(["quick", "quick", "kills"])) == len(times.LIMITS) + 1


def test_how_long_it_will_take_is_what_it_took_here(tmp_path):
    path = tmp_path / "build" / "seconds.json"
    first = times.expected(["pipelines", "planner"], path)
    assert "about 1.5 min, and pipelines" in first and "benchmarks quick` stays within 9.5 min" in first
    assert times.remember("pipelines", 90.04, path) == "pipelines took 90 s"
    assert "more than the 90 s that quick allows it" in times.remember("planner", 150, path)
    assert times.expected(["pipelines", "planner"], path) == "2 benchmarks: about 4.0 min"
    path.write_text("no JSON")
    assert times.last_times(path) == {}


# The benchmark's contestants train the same block: their outputs are equal in every step, or it raises


TINY = GPTConfig(layers=1, hidden=16, heads=4, sequence=8, flash=False)


@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core needs Linux and Python < 3.14"
)
def test_all_contestants_train_the_same_block():
    for seconds in shardlab.run(tensor_parallel.race, TINY, 2, "cpu", ranks=2, transport="gloo", timeout=150):
        names = {f"{name}, {split}" for name in ("ours", "DTensor", "Megatron", "messages") for split in ("TP", "SP")}
        assert seconds.keys() == names
        assert all(len(steps) == 2 for steps in seconds.values())


# ---- The races of long contexts and of several axes run: our results agree with the peer's, or they raise ------------


def test_a_ring_and_ulysses_compute_what_their_peers_do():
    for pair in (long_context.rings, long_context.ulysses):
        shape = long_context.Shape(heads=2, width=16)
        for of_lengths in shardlab.run(long_context.races, pair, {64: 2, 128: 1}, shape, ranks=2, timeout=60):
            assert [[len(side) for side in times] for times in of_lengths] == [[2, 2], [1, 1]]


@pytest.mark.slow
def test_a_step_and_its_composition_have_equal_losses():
    tiny = GPTConfig(layers=4, hidden=16, heads=4, sequence=16, vocabulary=32, tied=False, rope=True)
    for layout in composed.LAYOUTS[:3:2]:
        for ours, theirs in shardlab.run(composed.race, layout, tiny, "cpu", ranks=layout.mesh.world, timeout=120):
            assert len(ours) == len(theirs) == composed.ROUNDS


# The benchmark's contestants compute the same layer: their outputs are equal in every step, or it raises


TINY_EXPERTS = experts.Shape(replace(experts.CONFIG, hidden=16, width=16), tokens=8)


@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core needs Linux and Python < 3.14"
)
def test_all_contestants_compute_the_same_layer():
    for taken in shardlab.run(experts.layer_race, TINY_EXPERTS, 2, ranks=2, transport="gloo", timeout=150):
        assert {"ours", "Megatron, alltoall", "Megatron, allgather"} <= taken.keys()
        assert all(len(steps) == 2 for steps in taken.values())


def test_dispatch_and_levels_are_measured():
    for taken in shardlab.run(experts.exchange_race, TINY_EXPERTS, 2, ranks=2, transport="gloo", timeout=60):
        assert taken.keys() == {"ours", experts.MESSAGES, experts.COPIED}
    layer = replace(experts.NODES, hidden=16, width=16, choice=Choice(8, 2, groups=2, groups_per_token=1))
    nodes = TINY_EXPERTS._replace(layer=layer)
    for taken in shardlab.run(experts.level_race, nodes, 2, ranks=4, transport="gloo", timeout=60):
        assert taken.keys() == {"ours", "one level"}
