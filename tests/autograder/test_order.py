"""Messages match by their order: tags are dropped in a rank, and seen on the wire where somebody brings them back."""

import pytest

from autograder.checks.base import Reply
from autograder.checks.order import matched_by_tags
from autograder.checks.packets import ObservedCall
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.weeks import find


def send(peer: int, tag: int, members=(0, 1)) -> ObservedCall:
    return ObservedCall("send", list(members), peer, 4, 4, tag)


def recv(peer: int, tag: int, members=(0, 1)) -> ObservedCall:
    return ObservedCall("recv", list(members), peer, 4, 0, tag)


def answer(*calls) -> Reply:
    return Reply([{} for _ in calls], None, 0, "", calls=calls)


def test_one_order_on_both_sides_needs_no_tags():
    assert matched_by_tags(answer([send(1, 0), send(1, 0)], [recv(0, 0), recv(0, 0)])) is None
    assert matched_by_tags(answer([send(1, 7), send(1, 8)], [recv(0, 7), recv(0, 8)])) is None
    assert matched_by_tags(Reply([{}, {}], None, 0, "")) is None


def test_two_orders_that_tags_bring_together_are_named():
    problem = matched_by_tags(answer([send(1, 1), send(1, 2)], [recv(0, 2), recv(0, 1)]))
    assert problem is not None and "tags [1, 2]" in problem and "rank 1 receives [2, 1]" in problem


def test_messages_of_two_groups_are_compared_apart():
    ranks = [send(1, 1), send(1, 2, (0, 1, 2))], [recv(0, 2, (0, 1, 2)), recv(0, 1)], []
    assert matched_by_tags(answer(*ranks)) is None


def judged(judge, name: str, change=lambda source: source) -> str:
    check = find("week13.neighbours")
    source = change(known.find(check.exercise, name).source)
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}
    return judge.judge(check, answer, seed=3, cases=check.public[:1]).text


def bring_tags_back(source: str) -> str:
    """The methods that the rank took away stand in the closures of those that took their place."""
    lines = ['    for name in ("send", "recv"):', "        mine = getattr(dist.ProcessGroup, name)"]
    lines.append("        while getattr(mine, '__closure__', None):  # the meter's, then that without tags")
    lines.append("            mine = dict(zip(mine.__code__.co_freevars, mine.__closure__))['method'].cell_contents")
    lines.append("        setattr(dist.ProcessGroup, name, lambda *arguments, mine=mine: mine(*arguments))")
    head = "    partner = dist.get_rank(group) ^ 1\n"
    return source.replace(head, "\n".join([*lines, head]))


def test_a_rank_has_no_tags(judge):
    assert "are wrong" in judged(judge, "tags_for_order")
    assert judged(judge, "right_with_tags") == "Correct."


@pytest.mark.isolated(3)
def test_tags_that_come_back_are_seen_from_outside(judge):
    assert "NCCL has no tags" in judged(judge, "tags_for_order", bring_tags_back)
    assert judged(judge, "right_with_tags", bring_tags_back) == "Correct."
