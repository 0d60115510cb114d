"""Suggest the name that somebody probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

ALIKE, ALIKE_SHORT = 0.6, 0.5  # similarity above which one name may be a typo of the other
MOST_LISTED = 30  # longest list of names to print next to the suggestion


def instead(name: object, known: Iterable[object]) -> str:
    """The end of an error message about an unknown name: "use one of a, b, c; did you mean b?"."""
    names = [str(one) for one in known]
    near = nearest(str(name), names)
    if near is not None and len(names) > MOST_LISTED:
        return f"did you mean {near}?"
    listed = f"use one of {', '.join(names)}" if names else "there is none"
    return f"{listed}; did you mean {near}?" if near is not None else listed


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name with a similar spelling, or the only one that contains `name`; None otherwise.

    Ignores case, separators and leading zeros. A week also matches without its topic.
    """
    spelled: dict[str, str] = {}
    for one in known:
        for spelling in (one, one.split("_")[0]):
            spelled.setdefault(_plain(spelling), one)
    wanted = _plain(name)
    close = get_close_matches(wanted, spelled, 1, ALIKE_SHORT if len(wanted) < 3 else ALIKE)
    if close:
        return spelled[close[0]]
    containing = {one for spelling, one in spelled.items() if len(wanted) > 1 and wanted in spelling}
    return containing.pop() if len(containing) == 1 else None


def _plain(name: str) -> str:
    """Normalize a name: `Week_02` becomes `week2`."""
    return re.sub(r"[\W_]", "", re.sub(r"(?<!\d)0+(?=\d)", "", name.casefold()))
