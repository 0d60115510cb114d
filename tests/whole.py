"""`make test WHOLE=1` judges all known answers, and draws twenty times as many hostile values."""

import os

from hypothesis import settings

WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 500, deadline=None, derandomize=not WHOLE)
