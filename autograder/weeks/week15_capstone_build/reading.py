"""Reading questions about torch's distributed checkpoints and elastic agent; a test checks them against the code."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "waiting": "num_nodes_waiting",
    "counts": False,
    "order": ["dump", "fsync", "rm_file", "rename"],
}

CHECK = reading_check(
    "week15.reading",
    READING,
    {
        "waiting": "read the branch for WorkerState.HEALTHY in SimpleElasticAgent._invoke_run",
        "counts": "read where _remaining_restarts decreases, and the comment in the branch for HEALTHY",
        "order": "read FileSystemWriter.finish from top to bottom",
    },
    hints=(
        "Open the files named above; a few lines of code answer each question.",
        "The answers are a name; True or False; four names of calls.",
        "A new node is not a failure. The old list may only be removed once the new one is complete and on disk.",
    ),
    optional=True,
)
