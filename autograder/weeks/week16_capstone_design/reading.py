"""Three answers from torch's elastic agent; the week's test asks the code itself."""

from autograder.checks.reading import reading_check

READING = {"not_counted": "HEALTHY", "order": ["_stop_workers", "_initialize_workers"], "default": 3}

CHECK = reading_check(
    "week16.reading",
    READING,
    {
        "not_counted": "look in _invoke_run for the branch that restarts without changing _remaining_restarts",
        "order": "look at _restart_workers",
        "default": "look at the fields of WorkerSpec",
    },
    hints=(
        "Open the named file; each question is answered by a few lines of code.",
        "A new node that waits is not a failure. In which state are the workers when it is noticed?",
        "Stop, then rendezvous and start. A dataclass lists its fields with defaults.",
    ),
)
