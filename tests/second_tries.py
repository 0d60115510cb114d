"""What failed at first and passed at the second try, told at the end: a first failure never hides behind a rerun."""

import pytest

TITLE = "passed at the second try"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every test that passed only when it was run again, with the message of its first failure, and count them."""
    tries = terminalreporter.stats.get("rerun", [])
    passed = {report.nodeid for report in terminalreporter.stats.get("passed", [])}
    failed = {report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])}
    flaky = [report for report in tries if report.nodeid in passed - failed]
    if not flaky:
        return
    terminalreporter.section(f"{len({report.nodeid for report in flaky})} {TITLE}")
    for report in flaky:
        terminalreporter.line(f"{report.nodeid} ({report.when}): {_message(report)}")


def _message(report: pytest.TestReport) -> str:
    """The first failure's own words, or all that is kept of it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else str(report.longrepr)
