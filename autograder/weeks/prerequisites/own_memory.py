"""What processes share: nothing that was not sent."""

from autograder.checks.reading import reading_check

READING = {"returned by rank 2": 102, "notebook afterwards": 0, "returned by rank 2, second call": 102}

CHECK = reading_check(
    "prerequisites.own-memory",
    READING,
    {
        "returned by rank 2": "it adds 100 to its own copy of counter, and its own number",
        "notebook afterwards": "which process changed its counter?",
        "returned by rank 2, second call": "the second call starts new processes: from which value?",
    },
    hints=(
        "shardlab.run starts new processes at each call. What do they start with?",
        "Each rank starts with a copy of the notebook's variables, and its changes end with it.",
        "Only return values come back.",
    ),
)
