"""Three answers from torch's distributed checkpoints and its elastic agent; the week's test asks the code itself."""

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
        "counts": "read where _remaining_restarts gets smaller, and the comment in the branch for HEALTHY",
        "order": "read FileSystemWriter.finish from top to bottom",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "A name; True or False; four names of calls.",
        "A new node is not a failure. The old list may only go when the new one is whole and on the disk.",
    ),
)
