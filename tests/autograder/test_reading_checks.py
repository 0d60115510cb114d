"""A right answer to a reading question is right in every spelling that code has for it."""

import pytest

from autograder.checks.base import Reply, Task
from autograder.checks.reading import is_same, plainly, reading_check


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("dist.broadcast()", "broadcast"),
        ("FSDPParamGroup._record_post_forward()", "_record_post_forward"),
        ("self.comm.exchange_buffers(k, v)", "exchange_buffers"),
        ("WeightGradStore", "weightgradstore"),
        ("TP-CP-EP-DP-PP", "tp_cp_ep_dp_pp"),
        (
            ["reduce_scatter_single", "All-Reduce", "dist.all_gather_into_tensor"],
            ["reduce_scatter", "all_reduce", "all_gather"],
        ),
        (("torch.distributed._reduce_scatter_base", "all_to_all_single"), ["reduce_scatter", "all_to_all"]),
    ],
)
def test_spellings_of_one_answer(answer, expected):
    assert plainly(answer) == plainly(expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("reduce_scatter", "all_gather"),
        ("_record_post_forward", "post_forward"),
        ("grad_weight", "grad"),
        (["all_gather", "reduce_scatter"], ["reduce_scatter", "all_gather"]),
        (1, True),
        ("2", 2),
        (None, "broadcast"),
    ],
)
def test_other_answers_stay_other(answer, expected):
    assert plainly(answer) != plainly(expected)


@pytest.mark.parametrize("answer", ["1048576", " 1,048,576 ", "1_048_576", 1048576.0, 1048576])
def test_a_number_counts_as_what_it_is(answer):
    assert is_same(answer, 1048576) and is_same([answer, "x"], [1048576, "x"])


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, 1), (1, True), ("one", 1), ("", 0), (1048577, 1048576), (None, 0)]
)
def test_another_number_does_not(answer, expected):
    assert not is_same(answer, expected)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"a": None, "b": None}, "Not answered yet: replace each None"),
        ({"a": "...", "b": []}, "Not answered yet: replace each None"),
        ({"a": 3, "b": None}, "Not answered yet: b. For b: look there."),
        ({"a": 4, "b": None}, "Not answered yet: b. Not correct yet: a. For a: look here."),
        ({"a": 4, "b": "send"}, "Not correct yet: a. For a: look here."),
        ({"a": "3", "b": "dist.send()"}, None),
    ],
)
def test_what_was_not_answered_is_not_called_wrong(answers, told):
    check = reading_check("x.reading", {"a": 3, "b": "send"}, {"a": "look here", "b": "look there"}, hints=())
    reply = Reply([{"answers": [{"value": {"plain": answers}}]}], None, -1, "")
    said = check.judge({}, Task(None, 1, [[]], []), reply)
    assert (said or "").startswith(told) if told else said is None
