"""The supervisor observes inputs, the position of a backward, and calls itself, whatever a rank claims."""

import pytest

from autograder import weeks
from autograder.matrices import forged, kill_matrix, known

AVERAGE, BACKWARD = weeks.find("week02.average-gradients"), weeks.find("week02.ddp-backward")
SMALL = AVERAGE.public[:1]
OVERLAP = [case for case in BACKWARD.public if case["ranks"] > 1][-1:]
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
UNDONE = forged.forgeries()["returned_early"]
A_SECOND_MAPPING = """
import ctypes
from autograder.jobs import call
libc = ctypes.CDLL(None)
libc.mremap.restype = ctypes.c_void_p
begin = next(line.split("-")[0] for line in open("/proc/self/maps") if "memfd:inputs" in line and "rw-s" in line)
libc.mremap(ctypes.c_void_p(int(begin, 16)), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)
"""


def judged(judge, check, source, cases=None):
    return judge.judge(check, {"preamble": kill_matrix.PREAMBLE, "cells": [[check.exercise, source, True]]}, 1, cases)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (IN_PLACE, "changes the tensors it was given"),
        (ITSELF, "returns a view of its input"),
        (NOTHING_SHARED + IN_PLACE, "changes the tensors it was given"),
        (NOTHING_SHARED + ITSELF, "wrong"),  # its numbers change with the input
        (NEVER_RETURNS + IN_PLACE, "exited before its inputs could be compared"),
        (RETURNED_BEFORE + IN_PLACE, "was killed by SIGSEGV"),  # its inputs are read-only by then
        (forged.cell({}, UNDONE, IN_PLACE), "was killed by SIGSEGV"),
        (A_SECOND_MAPPING + IN_PLACE, "exited before its inputs could be compared"),
    ],
)
def test_inputs_are_seen_from_outside(judge, source, sentence):
    verdict = judged(judge, AVERAGE, source, SMALL)
    assert verdict.points == 0 and sentence in verdict.text


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
@pytest.mark.parametrize(
    ("forgery", "sentence"),
    [
        ("marks_left_out", "exchanges messages of one byte"),  # not one of those that hold ranks back
        ("replayed_marks", "of the gradient of 0.weight are wrong"),  # no factor corrects them
    ],
)
def test_a_backward_that_claims_to_overlap_is_found_out(judge, forgery, sentence):
    late = known.find(BACKWARD.exercise, "after_the_backward").source
    claims = forged.honest(BACKWARD, known.right_of(BACKWARD.exercise).source, judge)
    verdict = judged(judge, BACKWARD, forged.cell(claims, forged.forgeries()[forgery], late), OVERLAP)
    assert verdict.points == 0 and sentence in verdict.text


@pytest.mark.isolated(3)
def test_messages_of_one_byte_are_the_modules_own(judge):
    """They pass as the layers' marks: with more of them, gradients could be sent outside the buckets."""
    right = known.right_of(BACKWARD.exercise).source.replace(
        "    parameters, size =", "    dist.broadcast(torch.zeros(1, dtype=torch.uint8), 0)\n    parameters, size =", 1
    )
    verdict = judged(judge, BACKWARD, right, OVERLAP)
    assert verdict.points == 0 and "exchanges messages of one byte" in verdict.text


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
def test_code_that_is_given_up_makes_no_room_below_the_cap(judge):
    capped = weeks.find("week14.memory-cap")
    large = known.find(capped.exercise, "tiles_above_the_cap").source
    cell = forged.cell({}, forged.forgeries()["file_pages_dropped"], large)
    verdict = judged(judge, capped, cell, capped.public[-1:])
    assert verdict.points == 0 and "at its peak, but 16.78 MB are enough" in verdict.text
