"""Layouts that contradict themselves or the model, and the sentence that says what would work."""

import pytest
from shardlab.costs.layout import Layout, check_layout, with_global_batch
from shardlab.costs.model_zoo import ZOO


def test_the_world_and_the_batch_of_a_layout():
    layout = with_global_batch(Layout(tp=8, pp=4, dp=32, microbatch=2), 1536)
    assert (layout.world, layout.num_microbatches, layout.sequences_per_step) == (1024, 24, 1536)
    assert Layout(tp=2, dp=4, ep=8).expert_sharers == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tp": 0}, "use 1 or more"),
        ({"zero": 4}, "use 0, 1, 2 or 3"),
        ({"recompute": "some"}, "none, selective, full"),
        ({"dp": 4, "ep": 3}, r"use \[1, 2, 4\]"),
        ({"sequence_parallel": True}, "tp of 2 or more"),
        ({"virtual": 2}, "need a pipeline"),
        ({"pp": 4, "virtual": 2, "num_microbatches": 6}, "use 4"),
    ],
)
def test_a_layout_that_contradicts_itself(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Layout(**wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("gpt2", {"tp": 8}, "12 heads cannot be split over 8 ranks: .* 1, 2, 3, 4, 6 or 12"),
        ("gpt2", {"pp": 8, "virtual": 2}, "use at most 6 stages"),
        ("gpt2", {"dp": 2, "ep": 2}, "no experts"),
        ("mixtral-8x7b", {"dp": 16, "ep": 16}, "1, 2, 4 or 8"),
        ("gpt2", {"cp": 3}, "divisible by 6"),
    ],
)
def test_a_model_that_cannot_be_split_so(name, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_layout(ZOO[name], Layout(num_microbatches=8, **wrong))


def test_a_batch_that_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 64, say 128"):
        with_global_batch(Layout(dp=32, microbatch=2), 100)
