"""Print on any terminal: replace characters that its encoding does not have."""

from __future__ import annotations

import codecs
import sys
import unicodedata

READABLE = "readable"  # the error handler: `open(path, "w", encoding="ascii", errors=READABLE)`
PLAIN_ASCII = "plain-ascii"  # ASCII under a name that click does not reject as a misconfigured terminal
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
    """Let standard output and standard error accept every character, whatever the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:  # in a test or a notebook
            continue
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        reconfigure(encoding=PLAIN_ASCII if is_ascii else None, errors=READABLE)


def printable(text: str) -> str:
    """Text as standard output can show it. For notebooks and learners' scripts, whose streams are left unchanged."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, READABLE).decode(encoding)


def readable(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that an encoding lacks: a handler for `codecs.register_error`."""
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
