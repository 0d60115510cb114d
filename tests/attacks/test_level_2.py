"""Attacks on points, secrets, other ranks and the machine, in a container whose ranks have no namespaces of their own.

The points must equal those of level 3. Sentences may differ: files of another rank do not exist at level 3, but here
they cannot be opened.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
import suite
from honeypot import SECRET, Honeypot, laid_out

from autograder.judging.judge import Judge, JudgePool
from autograder.sandboxes import zygote

GROUPS = ("cheating", "reading", "tampering", "exhausting")
ALL_CASES = ("cheating/hides_crossing_bytes", "cheating/claims_not_a_number_of_bytes")  # only the large case detects it
CASES = [replace(case, sentence="-") for case in suite.load() if case.group in GROUPS]
pytestmark = [pytest.mark.timeout(1200), pytest.mark.isolated(2), pytest.mark.slow]


@dataclass
class Run:
    """The result of running all cases."""

    honeypot: Honeypot
    wrong: dict[str, str | None] = field(default_factory=dict)
    after: dict[str, str | None] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run all requested cases, two at a time, in two containers; in a class, each submission has its own."""
    folder = tmp_path_factory.mktemp("level2")
    with pytest.MonkeyPatch.context() as patch, laid_out(folder / "honeypot") as pot:
        patch.setenv("AUTOGRADER_LEVEL", "2")
        patch.setattr(Judge, "end_submission", lambda judge: None)
        zygote.level.cache_clear()
        assert zygote.level() == 2
        result = Run(pot)

        def attack(judge: Judge, case: suite.Case) -> None:
            chosen = replace(case, cases="all") if case.name in ALL_CASES else case
            verdict = suite.judge_case(chosen, judge, folder, pot.places)
            result.wrong[case.name] = suite.wrong_with(case, verdict, SECRET)
            result.left[case.name] = _others_in_the_container(judge)
            result.after[case.name] = suite.honest_answer(judge)

        with JudgePool(2) as pool:
            list(pool.map(attack, suite.asked_for(CASES, request)))
    zygote.level.cache_clear()
    yield result


def _others_in_the_container(judge: Judge) -> list[str]:
    """Return a container's processes other than the zygote, which ends them after its answer is read."""
    zygote = judge.zygote
    if zygote is None or zygote.container is None:
        return []
    deadline = time.monotonic() + 5
    while (left := zygote.container.processes()[1:]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_gets_what_it_has_earned(run: Run, case: suite.Case):
    assert run.wrong[case.name] is None
    assert run.left[case.name] == []
    assert run.after[case.name] is None


def test_the_host_is_as_it_was(run: Run):
    assert run.honeypot.is_untouched, run.honeypot
