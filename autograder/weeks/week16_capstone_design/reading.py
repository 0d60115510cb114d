"""Reading questions about torch's elastic agent; the week's test checks them against the code."""

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
        "Open the file named above; a few lines of code answer each question.",
        "A new node that waits is not a failure. In which state are the workers when the agent notices it?",
        "Stop, then rendezvous and start. A dataclass lists its fields with defaults.",
    ),
)
