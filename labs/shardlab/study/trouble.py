"""Messages about a file or folder that cannot be read or written."""

from __future__ import annotations

import errno

TROUBLE = (ValueError, OSError)  # the errors that `study` raises; a ValueError already has a message for people
_REASONS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "your disk quota is used up: free some space",
    errno.EROFS: "the folder is read-only: work in a writable copy of it (`--folder`)",
    errno.EACCES: "you have no permission to read or write there: get it, or work in your own folder (`--folder`)",
    errno.EPERM: "you have no permission to write there: get it, or work in your own folder (`--folder`)",
}


def sentence(error: Exception) -> str:
    """A message with the file, the reason and what to do."""
    if not isinstance(error, OSError):
        return str(error)
    where = error.filename2 or error.filename or "a file"
    reason = _REASONS.get(error.errno or 0, f"{(error.strerror or str(error)).lower()}: check it")
    return (
        f"{where}: {reason}, and run the command again. No answer is lost: a page is written completely or not at all."
    )
