"""A small batch of attackers and honest students; `python -m benchmarks attack-batch` runs the full one."""

import pytest
from batch import CASES, grade_batch

pytestmark = [pytest.mark.timeout(300), pytest.mark.isolated(3), pytest.mark.slow]
CHOSEN = [
    "cheating/displayhook",
    "cheating/sibling_memory",
    "cheating/raw_socket_exchange",
    "crashing/module_replaced_by_none",
    "crashing/stack_overflow",
    "hanging/threads_outlive",
    "malformed/json_bomb",
    "malformed/link_to_the_solution",
    "tampering/html_in_errors",
    "tampering/kill_everything",
]


def test_a_batch_is_graded_as_each_submission_is_alone(tmp_path):
    attacks = [case for case in CASES if case.name in CHOSEN]
    assert len(attacks) == len(CHOSEN)
    found = grade_batch(tmp_path, attacks, num_honest=2, seed=602)
    assert found.is_clean, found
