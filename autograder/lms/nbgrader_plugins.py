"""Plugins that replace parts of nbgrader's own commands and of the formgrader's buttons in this course.

nbgrader_config.py lists them. Collect reads the exchange like `autograder collect`, Export refuses grades of
submissions that changed after grading, late penalties follow the config, and other refusals name our command.
"""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.exchange.default import ExchangeCollect
from nbgrader.plugins import CsvExportPlugin, ExportPlugin, LateSubmissionPlugin
from nbgrader.plugins.zipcollect import ExtractorPlugin
from traitlets import Float

from autograder.grading import grade, roster
from autograder.grading.verdict_files import graded_weeks
from autograder.lms import from_exchange

ADVICE = {
    r"No notebooks were matched by '.*/solutions/[^*]*'": "`autograder build WEEK` builds a week's notebook, and "
    "`nbgrader release_assignment WEEK` gives it out",
    r"No notebooks were matched by '.*/submitted/[^']*'": "`autograder collect --week WEEK` brings submissions in, and "
    "`autograder grade WEEK` grades them",
    r"No notebooks were matched by '.*/autograded/[^']*'": "`autograder grade WEEK` writes the feedback pages too",
    r"No assignment with ID '[^']*' exists": "`autograder grade WEEK` enters the week and grades it",
}


def name_our_commands() -> None:
    """Append our command to nbgrader's refusals of steps that this course does another way."""
    before: Any = logging.getLogRecordFactory()
    if getattr(before, "names_our_commands", False):
        return

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = before(*args, **kwargs)
        if made.levelno >= logging.ERROR and isinstance(made.msg, str) and made.msg.startswith("No "):
            advice = next((said for pattern, said in ADVICE.items() if re.match(pattern, made.getMessage())), "")
            made.msg, made.args = (f"{made.getMessage()}: {advice}", ()) if advice else (made.msg, made.args)
        return made

    record.names_our_commands = True
    logging.setLogRecordFactory(record)


class CollectSafely(ExchangeCollect):
    """`nbgrader collect` and the formgrader's Collect: the same as `autograder collect`."""

    def init_src(self) -> None:
        """Read nothing until the exchange has been checked."""

    def init_dest(self) -> None:
        """Do nothing: submissions are stored where the course expects them."""

    def copy_files(self) -> None:
        """Collect, and log what happened to each submission."""
        names: Any = self.coursedir
        root = Path(names.root)
        submitted = root / names.submitted_directory
        wanted = from_exchange.Collection(
            names.assignment_id,
            submitted,
            roster.of_course(root),
            replace=self.update,
            student=names.student_id or "*",
        )
        try:
            lines = from_exchange.collect(wanted, Path(self.root), str(names.course_id))
        except ValueError as error:
            self.fail(str(error))
        for line in lines:
            log = self.log.warning if line.sentence else self.log.info
            log("%s: %s. %s", line.student or line.file, line.outcome, line.sentence)


class CurrentGrades(ExportPlugin):
    """`nbgrader export`: nbgrader's table, unless a submission has changed since it was graded."""

    def export(self, gradebook: Gradebook) -> None:
        """Write the table, or end with a sentence."""
        app: Any = self.parent
        root = Path(app.coursedir.root)
        chosen = set(map(str, self.assignment)) or set(graded_weeks(root))
        weeks = [week for week in graded_weeks(root) if week in chosen]
        stale = {week: grade.stale(week, root / app.coursedir.submitted_directory, root) for week in weeks}
        named = [f"{student} ({week})" for week, reasons in stale.items() for student in reasons]
        if named:
            app.fail(f"nothing was exported: {', '.join(named)} changed after grading; run `autograder grade` first")
        CsvExportPlugin(parent=self.parent).export(gradebook)


class UseAutograderCollect(ExtractorPlugin):
    """Disable `nbgrader zip_collect`, which would unpack untrusted archives to any path; ours only reads them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        app: Any = self.parent
        app.fail("zip_collect is off in this course: use `autograder collect submissions.zip --week WEEK`")


class PerDay(LateSubmissionPlugin):
    """Take off a percentage of the points for each day that has begun since the due date."""

    percent_per_day = Float(0.0, help="percentage of the points taken off per day or part of a day").tag(config=True)
    grace_minutes = Float(0.0, help="minutes after the due date that still count as on time").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the points to take off, at most all of them."""
        late = total_seconds_late - 60 * self.grace_minutes
        days = math.ceil(late / 86_400) if late > 0 else 0
        return min(score, score * days * self.percent_per_day / 100)
