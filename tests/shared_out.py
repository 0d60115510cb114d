"""Select and order the tests, and report on them at the end of a run.

`--cases 2`, as in CI, runs a fixed set, so that a regression fails the commit that caused it: every test function
except those in `whole_only.toml`, with its first case and others at equal distances; more where points and secrets
are protected, and only one case of a slow test.
"""

import tomllib
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TRUST = ("tests/attacks/", "tests/autograder/test_plain.py", "tests/autograder/test_wire.py")
SHARE_OF_TRUST = 6  # run a sixth of the cases of a test that protects trust
WHOLE_ONLY = tomllib.loads(Path(__file__).with_name("whole_only.toml").read_text(encoding="utf-8"))
APART = ("tests/autograder/test_kill_matrix.py", "tests/autograder/test_own_solutions.py")  # split by test
LONGEST = (*APART, "tests/attacks/", "tests/browser/")  # run first, so that no process is left with one at the end


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cases N`: 2 for `make test`, 1 for FAST=1, none for WHOLE=1 and WEEK=."""
    parser.addoption("--cases", type=int, help="at most N cases of each test, the same on every commit")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """One process runs all tests of a file, except for `APART`. `--dist loadgroup` does not work with pytest 9.2."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda nodeid: nodeid if nodeid.startswith(APART) else nodeid.split("::")[0]
    config.option.loadscopereorder = False  # keep our own order
    return scheduler


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the cases, and run the slowest first."""
    most, by_test = config.getoption("cases"), dict[str, list[pytest.Item]]()
    for item in items:
        by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(item) for test, cases in by_test.items() for item in (_some(test, cases, most) if most else cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def _some(test: str, cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    if test.rsplit("::", maxsplit=1)[-1] in WHOLE_ONLY:
        return []
    if cases[0].get_closest_marker("every_case"):
        return cases
    if cases[0].get_closest_marker("slow"):
        return cases[:1]
    if test.startswith(TRUST) and most > 1:
        most = max(most, -(-len(cases) // SHARE_OF_TRUST))
    return cases[:: -(-len(cases) // most)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report each test that passed only when it was rerun, with the message of its first failure."""
    stats = terminalreporter.stats
    failed = {report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])}
    first = {report.nodeid: report for report in reversed(stats.get("rerun", [])) if report.nodeid not in failed}
    for nodeid, report in first.items():
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.line(
            f"{nodeid} passed on the second try; its first failure: {crash.message if crash else report.longrepr}"
        )
