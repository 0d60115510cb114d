"""Plans fit, they are ranked, none is left out, and impossible requests raise a sentence."""

from dataclasses import replace
from itertools import pairwise

import pytest
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout, check_layout
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.claims import (
    check_rules,
    context_errors,
    crossing_doubt,
    crossing_errors,
    doubts,
    fp8_expert_errors,
)
from shardlab.costs.planning.neighbours import neighbours, what_grew
from shardlab.costs.planning.planner import (
    NothingFits,
    Plan,
    Search,
    candidates,
    memory_of,
    pareto,
    plan,
    seconds_of,
    usable_bytes,
    work_by_kind,
)

H100 = ACCELERATORS["h100"]
ALL = 1_000_000


@pytest.mark.parametrize("num_gpus", [1024, 16384])
def test_a_trillion_parameters_on_many_gpus(num_gpus):
    best = plan(ZOO["gpt-1t"], H100, num_gpus, 2 * num_gpus)[0]
    assert best.layout.world == num_gpus and best.layout.sequences_per_step == 2 * num_gpus
    assert best.memory.total <= usable_bytes(H100)
    assert best.layout.pp > 1 and best.layout.tp > 1


def test_plans_are_ranked_and_what_is_left_out_is_slower_or_too_large():
    model, limit = ZOO["llama2-7b"], usable_bytes(H100)
    found = plan(model, H100, 16, 64, best=3)
    times = [one.step.total for one in found]
    assert times == sorted(times) and len(times) == 3
    for layout in candidates(model, H100, 16, 64, Search()):
        if peak_memory(model, layout, gradient_bytes=4).total <= limit:
            assert seconds_of(model, layout, H100).total >= times[0]


@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama3-70b", Layout(tp=2, cp=4, pp=8, dp=8, num_microbatches=128, virtual=2, zero=1)),
        ("llama3-70b", Layout(tp=2, dp=8, num_microbatches=4, zero=3, sequence_parallel=True, recompute="full")),
        ("mixtral-8x7b", Layout(tp=2, pp=8, dp=8, ep=8, num_microbatches=16, recompute="selective")),
        ("gpt3-175b", Layout(tp=8, pp=8, dp=8, num_microbatches=16, schedule="dualpipe")),
    ],
)
def test_the_kinds_of_work_add_up_to_the_steps_compute(gpu, model, layout):
    kinds = work_by_kind(ZOO[model], layout, ACCELERATORS[gpu])
    assert sum(kinds.values()) == pytest.approx(seconds_of(ZOO[model], layout, ACCELERATORS[gpu]).compute)
    assert min(kinds.values()) > 0


def test_candidates_fill_the_world_and_the_batch_and_try_every_choice():
    tried = list(candidates(ZOO["mixtral-8x7b"], H100, 64, 512, Search()))
    assert len(set(tried)) == len(tried)
    for layout in tried:
        assert layout.world == 64 and layout.sequences_per_step == 512
    for name, values in {
        "ep": {1, 2, 4, 8},
        "zero": {0, 1, 2, 3},
        "recompute": {"none", "full"},
        "schedule": {"1f1b", "gpipe", "zero-bubble"},
        "cp": {1, 2, 4, 8, 16},
        "tp": {1, 2, 4, 8, 16},
    }.items():
        assert {getattr(layout, name) for layout in tried} == values, name
    assert "selective" in {one.recompute for one in candidates(replace(ZOO["gpt2"], flash=False), H100, 8, 8, Search())}


def test_tensor_parallel_groups_fill_servers_or_part_them_evenly():
    tried = {one.tp for one in candidates(ZOO["gpt2"], H100, 48, 48, Search())}
    assert tried == {1, 2, 4}  # 3, 6 and 12 divide the 12 heads but would cross servers unevenly
    assert {one.tp for one in candidates(ZOO["gpt2"], H100, 48, 48, Search(max_tp=2))} == {1, 2}


def test_chunks_of_one_layer_and_zero_2_beside_a_pipeline():
    model = ZOO["llama3-405b"]
    tried = list(candidates(model, H100, 16384, 2048, Search()))
    assert {one.virtual for one in tried if one.pp == 16} >= {1, 2, 4, 7}  # 126 layers give 7 to each of 16 stages
    assert max(one.virtual for one in tried) <= 8
    wider = list(candidates(model, H100, 16384, 2048, Search(zero_with_pipeline=2)))
    assert {max(one.zero for one in some if one.pp > 1) for some in (tried, wider)} == {1, 2}
    published = Layout(
        tp=8, pp=16, dp=128, virtual=7, num_microbatches=16, zero=2, sequence_parallel=True
    )  # arXiv 2407.21783, table 4
    assert published in wider and published not in tried


def test_long_sequences_are_split_and_short_ones_are_not():
    long = replace(ZOO["llama3-8b"], sequence=131072)
    assert {one.cp for one in candidates(long, H100, 16, 16, Search())} == {1, 2, 4, 8, 16}
    assert {one.cp for one in candidates(ZOO["llama3-8b"], H100, 16, 16, Search())} == {1}


def test_every_kind_of_context_parallelism_is_tried_and_explained():
    long = replace(ZOO["llama3-8b"], sequence=131072)
    tried = {(one.cp > 1, one.context) for one in candidates(long, H100, 64, 8, Search())}
    assert tried == {(False, "ring"), (True, "ring"), (True, "gathered"), (True, "ulysses")}
    winner = plan(long, H100, 64, 8)[0]
    assert winner.layout.cp > 1
    reasons = {one.change: one.reason for one in neighbours(long, H100, winner) if one.change.startswith("cp by")}
    assert len(reasons) == 2 and all(reasons.values())


def test_ulysses_needs_heads_for_all_its_ranks():
    with pytest.raises(ValueError, match="use a context-parallel size of 1, 2 or 4"):
        check_layout(replace(ZOO["llama3-8b"], sequence=131072), Layout(tp=8, cp=8, context="ulysses"))


def test_no_plan_beats_one_of_the_pareto_front():
    found = plan(ZOO["llama3-8b"], H100, 64, 256, best=ALL)
    front = pareto(found)
    assert front[0] == found[0] and len(front) > 1
    for one in found:
        assert any(f.step.total <= one.step.total and f.memory.total <= one.memory.total for f in front)
    for fast, small in pairwise(front):
        assert fast.step.total <= small.step.total and fast.memory.total > small.memory.total


def test_neighbours_keep_world_and_batch_and_lose_with_a_reason():
    model = ZOO["gpt-1t"]
    found = plan(model, H100, 1024, 2048, best=ALL)
    around = neighbours(model, H100, found[0])
    changes = " ".join(one.change for one in around)
    assert all(name in changes for name in ("tp 16", "tp 4", "pp", "dp", "microbatch", "ZeRO", "recompute"))
    for one in around:
        if one.plan is None:
            assert one.reason.startswith("impossible: ") and " use " in one.reason
            continue
        layout = one.plan.layout
        assert layout.world == 1024 and layout.sequences_per_step == 2048
        assert one.fits == (one.plan.memory.total <= usable_bytes(H100))
        if one.fits and layout in [known.layout for known in found]:
            assert one.plan.step.total >= found[0].step.total
        assert one.fits or "GiB too much" in one.reason


def test_chunks_follow_the_stages():
    model = ZOO["gpt-1t"]
    layout = Layout(tp=8, pp=32, dp=4, virtual=4, num_microbatches=512, sequence_parallel=True, zero=1)
    winner = Plan(layout, peak_memory(model, layout, gradient_bytes=4), seconds_of(model, layout, H100))
    around = {one.change: one for one in neighbours(model, H100, winner)}
    deeper = around["pp 64, dp 2, virtual 2"].plan
    assert deeper and (deeper.layout.virtual, deeper.layout.num_microbatches) == (2, 1024)
    assert around["virtual 8"].plan is None and "use at most 16 stages" in around["virtual 8"].reason
    few = replace(layout, num_microbatches=32)  # half of them is not a full round of 32 stages
    winner = Plan(few, winner.memory, winner.step)
    assert any(one.change == "microbatch 2, virtual 1" for one in neighbours(model, H100, winner))


@pytest.mark.parametrize("schedule", ["zero-bubble", "zbv", "dualpipe"])
def test_neighbours_of_schedules_without_chunks(schedule):
    layout = Layout(tp=8, pp=8, dp=4, num_microbatches=128, sequence_parallel=True, zero=1, schedule=schedule)
    model = ZOO["gpt3-175b"]
    winner = Plan(layout, memory_of(model, layout), seconds_of(model, layout, H100))
    around = {one.change: one for one in neighbours(model, H100, winner)}
    for change in ("tp 16, dp 2", "tp 4, dp 8", "dp 8, tp 4", "pp 16, dp 2", "ZeRO 0", "microbatch 2", "1f1b"):
        if change in around:
            assert around[change].plan, around[change].reason
    assert around["tp 16, dp 2"].plan.layout.schedule == schedule and around["1f1b"].plan.layout.schedule == "1f1b"
    flat = Plan(replace(layout, tp=1, sequence_parallel=False), winner.memory, winner.step)
    assert all("sequence parallelism" not in one.reason for one in neighbours(model, H100, flat))


def test_the_part_that_grew_is_named():
    model = ZOO["llama2-7b"]
    layout = Layout(dp=8, num_microbatches=8, zero=1)
    winner = plan(model, H100, 8, 64, search=Search(max_tp=1, zero=(1,), recompute=("none",), microbatches=(1,)))[0]
    assert winner.layout == layout
    around = {one.change: one for one in neighbours(model, H100, winner)}
    assert around["recompute full"].reason.startswith("compute: ")
    assert around["tp 2, dp 4"].reason.startswith("tensor: ")
    assert around["pp 2, dp 4"].fits and "cp 2, dp 4" not in around
    assert around["microbatch 2"].plan and around["microbatch 2"].plan.layout.num_microbatches == 4


def test_a_faster_layout_outside_of_the_search_is_called_that():
    winner = plan(ZOO["llama2-7b"], H100, 8, 64, search=Search(recompute=("full",)))[0]
    reasons = {one.change: one.reason for one in neighbours(ZOO["llama2-7b"], H100, winner)}
    assert "did not try" in reasons["recompute none"] or "does not fit" in reasons["recompute none"]


def test_an_equal_step_in_less_memory_is_better_too():
    model, layout = ZOO["llama2-7b"], Layout(dp=8, num_microbatches=8, zero=1)
    step = seconds_of(model, layout, H100)
    small, large = (Plan(layout, peak_memory(model, layout, gradient_bytes=n), step) for n in (2, 4))
    assert "GiB less: the search did not try it" in what_grew(large, small)
    assert what_grew(small, small) == "no difference in these formulas"
    assert what_grew(small, large).startswith("the same time") and what_grew(small, large).endswith("GiB more")


def test_rules_of_thumb_are_claims():
    tensor, pipeline, _ = check_rules(ZOO["gpt-1t"], H100, 1024, 2048)
    assert pipeline.holds and tensor.keeps and tensor.breaks and tensor.breaks.layout.tp == 16
    assert tensor.holds == (tensor.keeps.step.total <= tensor.breaks.step.total)
    assert not check_rules(ZOO["yi-6b"], H100, 8, 128)[1].holds  # a model that fits needs no pipeline


def test_what_leaves_a_server_comes_with_what_is_known_of_such_predictions():
    assert crossing_doubt(Layout(tp=8), H100) == ""
    said = crossing_doubt(Layout(tp=16), H100)
    assert "leaves a server of 8" in said and all(f"{error:+.0%}" in said for error in crossing_errors(H100))
    assert len(crossing_errors(H100)) >= 1 and len(crossing_errors(ACCELERATORS["a100"])) >= 5
    assert "there are none" in crossing_doubt(Layout(tp=16), ACCELERATORS["b200"])


def test_what_was_predicted_badly_before_comes_with_a_doubt():
    assert doubts(Layout(tp=8), H100) == []
    (said,) = doubts(Layout(cp=8), H100)
    assert "cp 8" in said and all(f"{error:+.0%}" in said for error in context_errors(H100))
    (said,) = doubts(Layout(ep=8, dp=8), H100, fp8_experts=True)
    errors = fp8_expert_errors(H100)
    assert (
        len(errors) > 5 and f"{len(errors)} runs" in said and f"from {min(errors):+.0%} to {max(errors):+.0%}" in said
    )
    assert "there are none" in doubts(Layout(cp=2), ACCELERATORS["v100"])[0]


def test_the_fewest_layers_that_make_a_layout_fit_are_recomputed():
    model, limit = ZOO["llama3-70b"], usable_bytes(H100)
    found = plan(model, H100, 64, 512, search=Search(recompute=("full",), some_layers=True), best=ALL)
    some = [one for one in found if one.layout.recomputed]
    assert some and all(one.memory.total <= limit for one in some)
    for one in some[:20]:
        k, n = one.layout.recomputed
        fewer = replace(one.layout, recompute="full" if k > 1 else "none", recomputed=(k - 1, n) if k > 1 else None)
        assert memory_of(model, fewer).total > limit
        whole = replace(one.layout, recomputed=None)
        assert one.step.total < seconds_of(model, whole, H100).total


def test_what_does_not_fit_is_answered_with_the_closest():
    with pytest.raises(NothingFits, match=r"does not fit on 8 a100: the closest, tp 8.* GiB more than 92%"):
        plan(ZOO["gpt3-175b"], ACCELERATORS["a100"], 8, 64)
    with pytest.raises(NothingFits, match="more divisors"):
        plan(ZOO["gpt3-175b"], H100, 1009, 7)
    for wrong in ((0, 7), (8, 0)):
        with pytest.raises(ValueError, match="use 1 or more"):
            plan(ZOO["gpt2"], H100, *wrong)
    with pytest.raises(ValueError, match="use 1 or more"):
        plan(ZOO["gpt2"], H100, 8, 8, best=0)
