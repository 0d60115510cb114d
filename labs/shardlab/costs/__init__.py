"""One function per formula: pure Python that imports no torch, each with its source in the docstring."""
