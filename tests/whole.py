"""What only `make test WHOLE=1` does: all known answers, and five times as many hostile values."""

import os

from hypothesis import settings

WHOLE = bool(os.environ.get("WHOLE"))
HOSTILE_VALUES = settings(max_examples=10_000 if WHOLE else 2_000, deadline=None, derandomize=not WHOLE)
