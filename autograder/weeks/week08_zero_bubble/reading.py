"""Three answers from our split backward, torch's, and the loop that runs a schedule."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {"late_cuts": 1, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}

CHECK = reading_check(
    "week08.reading",
    READING,
    {
        "late_cuts": "which weights are used at two places of the path, and what does `late` leave out",
        "weights_by": "look for the call whose result is added to weight.grad by hand",
        "order": "follow _input and _compute for an action of kind I on a stage in the middle",
    },
    hints=(
        "Open the named files; each question is answered by a line or two of code.",
        "A tied layer's weights are counted in `uses`; torch's function returns gradients and accumulates nothing.",
        "A message is taken, a gradient is computed, the result is put where the rank before waits for it.",
    ),
)
