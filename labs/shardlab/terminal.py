"""Print on every terminal: replace characters that its encoding does not have."""

from __future__ import annotations

import codecs
import sys
import unicodedata

READABLE = "readable"  # the error handler: `open(path, "w", encoding="ascii", errors=READABLE)`
PLAIN_ASCII = "plain-ascii"  # ASCII by a name that click does not take for a mistake of the terminal's
SIGNS = {
    **{"→": "->", "←": "<-", "↔": "<->", "↑": "^", "↓": "v", "⇒": "=>", "…": "...", "·": "-", "•": "*", "∙": "*"},
    **{"×": "x", "÷": "/", "−": "-", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "≈": "~", "≠": "!=", "±": "+-"},
    **{"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "✓": "+", "✔": "+", "✗": "x", "✘": "x", "°": " deg"},
    **{"µ": "u", "μ": "u", "α": "alpha", "β": "beta", "∞": "inf", "√": "sqrt", "∑": "sum", "▶": ">", "◀": "<"},
    **dict.fromkeys("─━═╌┄", "-"),
    **dict.fromkeys("│┃║╎┆", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰╔╗╚╝╠╣╦╩╬┏┓┗┛┡┩┣┫┳┻╋╇", "+"),
    **dict.fromkeys("█▇▆▅▄▃▂▁▉▊▋▌▍▎▏▓▒░■", "#"),
}


def fit_output() -> None:
    """Let standard output and standard error take every character, whatever encoding the terminal has."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:  # a test's or a notebook's
            continue
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        reconfigure(encoding=PLAIN_ASCII if is_ascii else None, errors=READABLE)


def printable(text: str) -> str:
    """A text as standard output can show it; unlike a program, a notebook or a script of a learner is left as it is."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, READABLE).decode(encoding)


def readable(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that an encoding does not have: a handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(map(_in_ascii, missing)), error.end


def _in_ascii(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    letters = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return letters or ("" if unicodedata.combining(sign) else "?")


def _find(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != PLAIN_ASCII:
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        plain.encode,
        plain.decode,
        streamreader=plain.streamreader,
        streamwriter=plain.streamwriter,
        incrementalencoder=plain.incrementalencoder,
        incrementaldecoder=plain.incrementaldecoder,
        name=PLAIN_ASCII,
    )


codecs.register_error(READABLE, readable)
codecs.register(_find)
