"""What `shardlab doctor` says about grading; found through the entry point group `shardlab.doctor`."""

from __future__ import annotations

import sys

from shardlab.doctor import NOTE, OK, Finding

from autograder.sandbox import LEVELS, level


def sandbox() -> Finding:
    """How well submissions can be confined here: a note, because a student needs no sandbox."""
    found = level()
    value = f"level {found}: {LEVELS[found]}"
    if found >= 2:
        return Finding("sandbox", value, OK)
    advice = "for self-checks that is enough; for grades use Linux with user namespaces, and: apt install bubblewrap"
    if sys.platform != "linux":
        advice = "for self-checks that is enough; grade on Linux"
    return Finding("sandbox", value, NOTE, advice)
