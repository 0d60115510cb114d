"""Wrong: gathers all, uses all, frees all."""


def gather_plan(num_units, prefetch):
    units = range(num_units)
    plan = [f"gather {unit}" for unit in units] + [f"forward {unit}" for unit in units]
    plan += [f"backward {unit}" for unit in reversed(units)]
    return plan + [f"free {unit}" for unit in units]
