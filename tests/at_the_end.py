"""What a run tells at its end: which tests passed only at the second try, and what was skipped, by reason."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Both lists, under the summary that pytest gives itself."""
    _tell_second_tries(terminalreporter)
    _tell_skipped(terminalreporter)


def _tell_second_tries(terminalreporter: pytest.TerminalReporter) -> None:
    """Every test that passed only when it was run again, with the message of its first failure, and how many."""
    stats = terminalreporter.stats
    failed = {report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])}
    first = {report.nodeid: report for report in reversed(stats.get("rerun", [])) if report.nodeid not in failed}
    if first:
        terminalreporter.section(f"{len(first)} passed at the second try")
    for nodeid, report in first.items():
        terminalreporter.line(f"{nodeid} failed at first ({report.when}): {_message(report)}")


def _tell_skipped(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped, for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report) for report in skipped)
    if reasons:
        terminalreporter.section(f"{len(skipped)} not run here")
    for reason, number in reasons.most_common():
        terminalreporter.line(f"{number}: {reason}")


def _message(report: pytest.TestReport) -> str:
    """A failure in its own words."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else str(report.longrepr)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped: the last part of (file, line, reason)."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
