"""The one place that binds nbgrader's directories and steps to this course; run nbgrader from this folder.

nbgrader writes the students' notebooks, collects, keeps the gradebook, offers manual grading and makes the feedback.
It never runs a student's code: the Autograde step imports the verdicts that `autograder grade` has written.
"""

import os
from pathlib import Path

import nbgrader

from autograder.lms import nbgrader_plugins

c = get_config()  # noqa: F821  (nbgrader defines it)
course_root = Path(__file__).resolve().parent

c.CourseDirectory.course_id = "sys602"
c.CourseDirectory.root = str(course_root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "course"
c.CourseDirectory.submitted_directory = "autograder/submitted"
c.CourseDirectory.autograded_directory = "autograder/autograded"
c.CourseDirectory.feedback_directory = "autograder/feedback"
c.CourseDirectory.solution_directory = "autograder/solved"
c.CourseDirectory.source_with_tests_directory = "autograder/source_with_tests"
# What lies beside a source notebook is copied to the students, with the feedback too: the percent sources and the known
# answers hold the solutions.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.py", "*.pyc", "__pycache__", "feedback", "known"]
# PostgreSQL by URL: GRADEBOOK_URL=postgresql://...
c.CourseDirectory.db_url = os.environ.get("GRADEBOOK_URL", f"sqlite:///{course_root}/autograder/gradebook.db")

# Release, fetch, submit and collect use this folder; `autograder exchange` makes it and repairs it.
c.Exchange.root = os.environ.get("NBGRADER_EXCHANGE", "/usr/local/share/nbgrader/exchange")
c.Exchange.path_includes_course = False

# Collect, Export and zip_collect take a submission for its owner's, a grade for the submission's, and no link at all.
c.ExchangeFactory.collect = "autograder.lms.nbgrader_plugins.CollectSafely"
c.ExportApp.plugin_class = "autograder.lms.nbgrader_plugins.CurrentGrades"
c.ZipCollectApp.extractor_plugin = "autograder.lms.nbgrader_plugins.UseAutograderCollect"
nbgrader_plugins.name_our_commands()

# Late submissions: nothing is taken off unless you write a number here, such as 10.0.
c.AssignLatePenalties.plugin_class = "autograder.lms.nbgrader_plugins.PerDay"
c.PerDay.percent_per_day = 0.0
c.PerDay.grace_minutes = 0.0

c.ClearSolutions.code_stub = {
    "python": '# Your code here.\nraise NotImplementedError("your code is still missing here")'
}
c.ClearSolutions.text_stub = "*Your answer here.*"

c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.LockCells",
    "autograder.authoring.notebooks.LeaveStubs",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.sanitize_preprocessors = [
    "autograder.grading.nbgrader_bridge.RestoreNotebook",  # our cells, the student's answers; metadata is never trusted
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "autograder.grading.nbgrader_bridge.ImportVerdict",  # replaces the step that executes the notebook
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "autograder.grading.nbgrader_bridge.SaveExtraCredit",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.grading.nbgrader_bridge.FeedbackTable",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.HTMLExporter.filters = {"answer_html": "autograder.grading.answer_html.answer_html"}
# Our feedback page; the formgrader finds its own template in the second folder.
c.HTMLExporter.extra_template_basedirs = [
    str(course_root / "autograder" / "templates"),
    str(Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"),
]
