"""Plans: they fit, they are ranked, nothing is left out, and what cannot be done is said in a sentence."""

import time
from dataclasses import replace

import pytest
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.memory import peak_memory
from shardlab.costs.model_zoo import ZOO
from shardlab.costs.planner import USABLE, Search, candidates, check_rules, plan
from shardlab.costs.step import step_seconds

H100 = ACCELERATORS["h100"]


def test_a_trillion_parameters_on_1024_gpus_in_two_seconds():
    begin = time.perf_counter()
    found = plan(ZOO["gpt-1t"], H100, 1024, 2048)
    assert time.perf_counter() - begin < 2
    best = found[0]
    assert best.layout.world == 1024 and best.layout.sequences_per_step == 2048
    assert best.memory.total <= USABLE * H100.memory_bytes
    assert best.layout.tp <= 8 and best.layout.pp > 1


def test_plans_are_ranked_and_what_is_left_out_is_slower_or_too_large():
    model, limit = ZOO["llama2-7b"], USABLE * H100.memory_bytes
    found = plan(model, H100, 16, 64, best=3)
    times = [one.step.total for one in found]
    assert times == sorted(times) and len(times) == 3
    for layout in candidates(model, H100, 16, 64, Search()):
        if peak_memory(model, layout, gradient_bytes=4).total <= limit:
            assert step_seconds(model, layout, H100, gradient_bytes=4).total >= times[0]


def test_candidates_fill_the_world_and_the_batch():
    for layout in candidates(ZOO["mixtral-8x7b"], H100, 64, 512, Search()):
        assert layout.world == 64 and layout.sequences_per_step == 512
        assert layout.ep in (1, 2, 4, 8)


def test_long_sequences_are_split_and_short_ones_are_not():
    long = replace(ZOO["llama3-8b"], sequence=131072)
    assert {one.cp for one in candidates(long, H100, 16, 16, Search())} == {1, 2, 4, 8, 16}
    assert {one.cp for one in candidates(ZOO["llama3-8b"], H100, 16, 16, Search())} == {1}


def test_rules_of_thumb_are_claims():
    tensor, pipeline, _ = check_rules(ZOO["gpt-1t"], H100, 1024, 2048)
    assert tensor.holds and pipeline.holds and tensor.breaks and tensor.breaks.layout.tp == 16
    assert not check_rules(ZOO["llama2-7b"], H100, 8, 128)[1].holds  # a model that fits needs no pipeline


def test_what_does_not_fit_is_answered_with_the_closest():
    with pytest.raises(ValueError, match=r"does not fit on 8 a100: the closest, tp 8.* GiB more than 92%"):
        plan(ZOO["gpt3-175b"], ACCELERATORS["a100"], 8, 64)
    with pytest.raises(ValueError, match="more divisors"):
        plan(ZOO["gpt3-175b"], H100, 1009, 7)
    with pytest.raises(ValueError, match="use 1 or more"):
        plan(ZOO["gpt2"], H100, 0, 7)
