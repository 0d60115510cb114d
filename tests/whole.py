"""`pytest --sample`, as CI runs: a fixed set, the same on every commit, so that a regression fails its own commit.

Every test function runs, but for the few that `WHOLE_ONLY` names. The first of its cases runs, and others at equal
distances: more where points and secrets are protected, none of a slow test. `make test WHOLE=1` runs all cases.
"""

import os

import pytest
from hypothesis import settings

WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 2_000, deadline=None, derandomize=not WHOLE)
TRUST = ("tests/attacks/", "tests/autograder/test_plain.py", "tests/autograder/test_wire.py")
CASES, SHARE_OF_TRUST = 2, 6  # at most two cases of a test; of one that protects trust a sixth
WHOLE_ONLY = {  # a minute or more alone, on a busy machine; what else covers it in the fixed set
    "test_from_the_release_to_the_tables_of_the_lms": "a class of 40, four minutes; test_attacks grades a class of 12",
    "test_a_student_works_through_the_week": "95 s of browser; test_study drives a week's page as well",
    "test_a_grade_and_its_page_reach_the_student_alone": "95 s; the other tests of three accounts",
    "test_each_message_has_a_line_a_function_and_a_module": "70 s; the other Megatron comparisons of lab 2",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sample`, which `make test` gives but for FAST=1, WHOLE=1 and WEEK=."""
    parser.addoption("--sample", action="store_true", help="the fixed set: every test function, few of many cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but the fixed set."""
    if not config.getoption("sample"):
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(item) for test, cases in by_test.items() for item in _of_test(test, cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _of_test(test: str, cases: list[pytest.Item]) -> list[pytest.Item]:
    if test.rsplit("::", maxsplit=1)[-1] in WHOLE_ONLY:
        return []
    if cases[0].get_closest_marker("every_case"):
        return cases
    if cases[0].get_closest_marker("slow"):
        return cases[:1]
    most = max(CASES, -(-len(cases) // SHARE_OF_TRUST)) if test.startswith(TRUST) else CASES
    return cases[:: -(-len(cases) // most)]
