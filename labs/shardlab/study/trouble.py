"""Sentences for a file or a folder that cannot be read or written."""

from __future__ import annotations

import errno

TROUBLE = (ValueError, OSError)  # what the study raises; a ValueError is a sentence already
_REASONS = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "your share of the disk is used up: make room",
    errno.EROFS: "the folder can only be read: work in a copy of it that you may write to (`--folder`)",
    errno.EACCES: "you may not read or write there: ask for the right, or work in your own folder (`--folder`)",
    errno.EPERM: "you may not write there: ask for the right, or work in your own folder (`--folder`)",
}


def sentence(error: Exception) -> str:
    """One sentence with the file, the reason and the remedy."""
    if not isinstance(error, OSError):
        return str(error)
    where = error.filename2 or error.filename or "a file"
    reason = _REASONS.get(error.errno or 0, f"{(error.strerror or str(error)).lower()}: look at it")
    return f"{where}: {reason}, and run the command again. No answer is lost: a page is written whole, or not at all."
