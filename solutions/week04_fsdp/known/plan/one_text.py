"""Wrong: one text instead of a list."""


def gather_plan(num_units, prefetch):
    return ", ".join(f"gather {unit}, forward {unit}, free {unit}" for unit in range(num_units))
