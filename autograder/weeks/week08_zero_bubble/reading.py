"""Three answers from our split backward, torch's, and the loop that runs a schedule."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {"late_cuts": 1, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}

CHECK = reading_check(
    "week08.reading",
    READING,
    {
        "late_cuts": "which weights are used in two places on the path, and what does `late` leave out",
        "weights_by": "look for the call whose result is added to weight.grad by hand",
        "order": "follow _input and _compute for an action of kind I on a middle stage",
    },
    hints=(
        "Open the named files; a line or two of code answers each question.",
        "`uses` counts a tied layer's weights; torch's function returns gradients and accumulates nothing.",
        "The rank takes a message, computes a gradient, and puts the result where the previous rank waits for it.",
    ),
)
