"""Week 15: numbers on its page, reference solutions checked by hand and against the package, and partial credit."""

import inspect
from random import Random

import pytest
import torch
from shardlab import costs
from shardlab.costs.models.zoo import ZOO
from shardlab.hybrid.race import from_dict
from shardlab.mesh import Mesh
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.elastic.agent.server.api import SimpleElasticAgent

from autograder.authoring import notebooks
from autograder.matrices import known
from autograder.weeks.week15_capstone_build import _suspects, bill, finish, interval, newest, reshard, which_axis
from autograder.weeks.week15_capstone_build.reading import READING


def page() -> str:
    return "\n".join(cell.source for cell in notebooks.read_source("week15").cells)


def test_the_bill_is_that_of_the_package():
    model = ZOO["mixtral-8x7b"]
    layout = costs.Layout(tp=2, cp=2, ep=4, dp=8, pp=4, microbatch=1)
    on_stage = costs.parameters_on_stage(model, layout, 1)
    case = {axis: getattr(layout, axis) for axis in bill.AXES} | {"layers": model.layers, "hidden": model.hidden}
    case |= {"kv": model.kv_width, "tokens": model.sequence // 2, "k": model.active_experts}
    case |= {"dense": on_stage.dense * 8, "experts": on_stage.experts * 8 * 4}
    ours, theirs = bill.expected(case), bill.by_the_package(model, layout)
    assert ours[2:5] == pytest.approx(theirs[:3])


def test_llama_3_fails_every_three_hours():
    between, young, daly, best, hourly = interval.expected(interval.LLAMA_3)
    assert between == pytest.approx(54 * 24 * 3600 / 419, rel=2e-3)
    assert [round(one) for one in (between, young, daly)] == [11125, 817, 797]
    assert (f"{best:.1%}", f"{hourly:.1%}") == ("87.6%", "77.6%") and "goodput is 87.6%" in page().lower()


def test_gradients_of_the_page_by_hand():
    mesh = Mesh(tp=2, dp=2)
    dense, norm = [6.0, 6.0, 2.0, 2.0], [4.0, 2.0, 1.0, 1.0]
    for rank in range(4):
        for kind, given in (("dense", dense), ("norm", norm)):
            assert sum(given[other] for other in finish.adders(mesh, rank, kind)) / 4 == 2.0


@pytest.mark.parametrize("sizes", [case["mesh"] for case in finish.CHECK.draw(Random(1))])
def test_each_gradient_is_made_up_of_parts_that_are_all_there(sizes):
    """Some rank adds every rank's part of a kind, and ranks that sum together agree on their members."""
    mesh = Mesh(**sizes)
    for kind in finish.KINDS:
        sharers = [rank for rank in range(mesh.world) if kind in finish.kinds_of(mesh, rank)]
        by_rank = {rank: set(finish.adders(mesh, rank, kind)) for rank in sharers}
        assert all(by_rank[rank] == by_rank[other] for rank in sharers for other in by_rank[rank])
        assert set().union(*by_rank.values()) == set(sharers)
    made, mine = finish.groups_of(mesh)
    assert all(rank in made[number] for rank, groups in enumerate(mine) for number in groups.values())


def test_pieces_of_a_mesh_are_the_whole_model():
    whole = {reshard.tensor_of(one) for one in reshard.pieces([1, 1, 1, 1], 5, 4)}
    for mesh in ([2, 1, 1, 1], [3, 2, 2, 2], [1, 3, 4, 4]):
        found = reshard.pieces(mesh, 5, 4)
        assert {reshard.tensor_of(one) for one in found} == whole
        columns = {tuple(one["columns"]) for one in found if reshard.tensor_of(one) == (0, -1, "up")}
        assert sum(end - begin for begin, end in columns) == reshard.COLUMNS


def test_each_damage_is_one():
    for damage in newest.DAMAGES:
        name, files = newest.checkpoint(4, 3, damage, Random(0))
        good_name, good = newest.checkpoint(4, 3, newest.GOOD, Random(0))
        assert (name, files) != (good_name, good)


def test_all_suspects_are_drawn_and_one_is_healthy_on_every_mesh():
    for seed in range(3):
        assert sorted(case["suspect"] for case in which_axis.CHECK.draw(Random(seed))) == list(range(7))
    model, one = _suspects.model(Random(0)), Mesh()
    alone = _suspects.exact_gradients(model, one, which_axis.NOTHING)
    for mesh in _suspects.meshes():
        found = _suspects.exact_gradients(model, mesh, which_axis.NOTHING)
        assert all(torch.allclose(found[name], alone[name], atol=1e-12) for name in alone)


@pytest.mark.parametrize("seed", range(4))
def test_each_suspect_breaks_what_the_check_expects(seed):
    """In one process; tests/shardlab/hybrid/test_refused.py has the same table on real ranks."""
    space: dict = {}
    exec(known.find("week15.which-axis", "right_as_taught").source, space)
    rng = Random(seed)
    for case in which_axis.CHECK.draw(rng):
        task = which_axis._make(case, rng)
        assert space["culprit_in"](task.inputs[0][0][0]) == task.expected[0]


def test_the_recipe_of_the_page_is_a_right_one():
    space: dict = {}
    exec(known.find("week15.recipe", "right_pipeline").source, space)
    assert str(space["recipe"]).replace("'", '"') in page() and from_dict(space["recipe"]).mesh.world == 4


def test_what_the_reading_questions_ask_is_so():
    source = inspect.getsource(SimpleElasticAgent._invoke_run)
    healthy = source.split("state == WorkerState.HEALTHY")[1]
    assert f"if {READING['waiting']} > 0" in healthy and "_restart_workers" in healthy
    assert ("_remaining_restarts -= 1" in healthy) is READING["counts"]
    finish_source = inspect.getsource(FileSystemWriter.finish)
    places = [finish_source.index(f".{name}(") for name in READING["order"]]
    assert places == sorted(places)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "name", "points", "sentence"),
    [
        ("week15.data-order", "keeps_a_generator", 0, "a resumed run would read different data"),
        ("week15.data-order", "interleaved", 0, "the same sequences in another order"),
        ("week15.finish", "norms_are_partial", 0, "a part of the tokens only"),
        ("week15.finish", "experts_times_ep", 0, "times what it should be"),
        ("week15.own-weights", "experts_by_tp", 0, "Only ep splits the experts"),
        ("week15.backward", "only_the_last", 0, "Sum over all microbatches"),
        ("week15.update", "sums_again", 0, "the formula says 0 B"),
        ("week15.update", "whole_sums_with_zero_1", 0, "ZeRO-1 scatters a sum"),
        ("week15.loop", "ep_reads_alike", 0, "in one process"),
        ("week15.which-axis", "ep_against_one", 0, "you accused 'ep'"),
        ("week15.reshard", "local_layers", 0, "of the whole model"),
        ("week15.newest", "by_text", 0, "is the newest complete one"),
        ("week15.recipe", "too_slow", 2, "it must be at most"),
    ],
)
def test_what_a_student_reads(judged, exercise, name, points, sentence):
    verdict = judged(exercise, name)
    assert verdict.points == points and sentence in verdict.text
