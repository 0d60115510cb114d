"""Room for the names of sliders and menus, which ipywidgets cuts off after about ten letters."""

from collections.abc import Sequence
from typing import Any

NAME_WIDTH = 80  # pixels that ipywidgets gives a name
CONTROL_WIDTH = 220  # pixels for the control behind its name, as in ipywidgets
LETTER = 7.5  # pixels of an average letter
GAP = 12  # pixels between the name and the control


def fit_names(controls: Sequence[Any]) -> None:
    """Make the names of all these widgets as wide as the longest of them, so that none is cut off."""
    longest = max((len(control.description) for control in controls), default=0)
    width = max(NAME_WIDTH, round(LETTER * longest) + GAP)
    for control in controls:
        control.style.description_width = f"{width}px"
        control.layout.width = f"{width + CONTROL_WIDTH}px"
