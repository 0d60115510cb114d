"""Split a verdict's text into the parts of a page or card: sentences, details, hint, and what was right."""

from __future__ import annotations

from dataclasses import dataclass

TRACEBACK = "Traceback (most recent call last):"
_HINT, _RIGHT = "Hint: ", "Right: "


@dataclass(frozen=True)
class Told:
    """`sentences` say what was seen. `detail` is the full text if more lines follow: a wait graph or a traceback."""

    sentences: list[str]
    detail: str = ""
    hint: str = ""
    right: str = ""


def told(text: str) -> Told:
    """Split a verdict's text; the last line of a traceback becomes a sentence."""
    lines = [line for line in text.split("\n") if line.strip()]
    hint = next((line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)), "")
    right = next((line.removeprefix(_RIGHT) for line in lines if line.startswith(_RIGHT)), "")
    said = [line for line in lines if not line.startswith((_HINT, _RIGHT))]
    sentences = [line for line in said if not line.startswith((" ", TRACEBACK))]
    return Told(sentences, "\n".join(said) if len(sentences) < len(said) else "", hint, right)
