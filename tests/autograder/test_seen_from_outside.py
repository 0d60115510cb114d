"""What the supervisor sees for itself, whatever a rank says: inputs, where a backward is, and calls."""

import pytest

from autograder import kill_matrix, known, weeks
from autograder.matrices import forged

AVERAGE, BACKWARD = weeks.find("week02.average-gradients"), weeks.find("week02.ddp-backward")
SMALL = AVERAGE.public[:1]
IN_PLACE = """
def average_gradients(gradients, *, group):
    for gradient in gradients:
        dist.all_reduce(gradient, group=group)
        gradient /= dist.get_world_size(group)
    return [gradient.clone() for gradient in gradients]
"""
ITSELF = """
def average_gradients(gradients, *, group):
    return list(gradients)
"""
NOTHING_SHARED = """
from autograder.jobs import call
plain_call = call._call
call._call = lambda *args: plain_call(*args) | {"shares_input": False}
"""
NEVER_RETURNS = "from autograder.jobs import call\ncall.returned = None\n"
RETURNED_BEFORE = "from autograder.jobs import call\ncall.returned()\ncall.returned = None\n"


def judged(judge, check, source, cases=None):
    return judge.judge(check, {"preamble": kill_matrix.PREAMBLE, "cells": [[check.exercise, source, True]]}, 1, cases)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (IN_PLACE, "changes the tensors it was given"),
        (ITSELF, "returns a view of its input"),
        (NOTHING_SHARED + IN_PLACE, "changes the tensors it was given"),
        (NOTHING_SHARED + ITSELF, "wrong"),  # its numbers are spoilt with the input
        (NEVER_RETURNS + IN_PLACE, "left before its inputs could be compared"),
        (RETURNED_BEFORE + IN_PLACE, "wrong"),
    ],
)
def test_inputs_are_seen_from_outside(judge, source, sentence):
    verdict = judged(judge, AVERAGE, source, SMALL)
    assert verdict.points == 0 and sentence in verdict.text


@pytest.mark.slow
def test_a_backward_that_claims_to_overlap_is_found_out(judge):
    """It asks for all numbers in time, and its buckets leave after the last."""
    late = known.find(BACKWARD.exercise, "after_the_backward").source
    claims = forged.honest(BACKWARD, known.right_of(BACKWARD.exercise).source, judge)
    lie = forged.cell(claims, forged.forgeries()["marks_left_out"], late)
    alone, behind = judged(judge, BACKWARD, late), judged(judge, BACKWARD, lie)
    assert alone.points == behind.points == 2
    assert "has not left when the backward reaches layer" in behind.text
