"""The formulas held against published runs, every source predicted by constants that never saw it."""
