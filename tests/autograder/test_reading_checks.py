"""A right answer to a reading question is right in every spelling that code has for it."""

import pytest

from autograder.checks.reading import plainly


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
