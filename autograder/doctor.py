"""The findings of `shardlab doctor` on grading and the exchange; registered as entry points `shardlab.doctor`."""

from __future__ import annotations

import os
import shutil
import sys

from shardlab.commands.doctor import NOTE, OK, PROBLEM, Finding

from autograder.authoring.course import ROOT
from autograder.lms import exchange as folders
from autograder.sandboxes import containers
from autograder.sandboxes.zygote import LEVELS, level, missing


def sandbox() -> Finding:
    """How well submissions can be confined here; only a note, because a student needs no sandbox."""
    found = level()
    value = f"level {found}: {LEVELS[found]}"
    if found == 2:
        return Finding("sandbox", f"{value} ({' '.join(containers.found() or ())})", OK)
    if found == 3:
        return Finding("sandbox", value, OK)
    return Finding("sandbox", value, NOTE, f"to grade, {_remedy()}")


def exchange() -> Finding:
    """Whether students could replace a folder of nbgrader's exchange; having no exchange is fine."""
    try:
        place, course = folders.place_of(ROOT)
    except ValueError:
        return Finding("exchange", "none: this course has no nbgrader_config.py", OK)
    if not place.exists():
        return Finding("exchange", "none here", OK)
    owner = (place / course).lstat().st_uid if os.path.lexists(place / course) else os.geteuid()
    if owner != os.geteuid() and not os.access(place / course / "inbound", os.R_OK):
        return Finding("exchange", f"{place}, which belongs to {folders.account(owner)}", OK)
    wrong = folders.problems(place, course, os.geteuid())
    if wrong:
        return Finding("exchange", "; ".join(wrong), PROBLEM, "run `autograder exchange` before you release a week")
    return Finding("exchange", f"{place} is safe for {course}", OK)


def _remedy() -> str:
    if sys.platform != "linux":
        return "use a Linux machine"
    if shutil.which("bwrap") is None:
        return "install bubblewrap (on Debian and Ubuntu: apt install bubblewrap)"
    return (
        "leave the container, or allow this user to create user namespaces (sysctl user.max_user_namespaces), or use "
        f"podman or docker ({missing()})"
    )
