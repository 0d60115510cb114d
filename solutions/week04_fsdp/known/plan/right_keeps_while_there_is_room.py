"""Different: forward keeps the last units that fit for the backward; fewer gathers."""


def gather_plan(num_units, prefetch):
    plan, held = [], []
    most = prefetch + 1
    passes = [*range(num_units), *reversed(range(num_units))]
    for place, unit in enumerate(passes):
        for ahead in passes[place : place + most]:
            if ahead not in held:
                if len(held) == most:
                    later = passes[place:]
                    victim = max(held, key=lambda one: later.index(one) if one in later else len(passes))
                    held.remove(victim)
                    plan.append(f"free {victim}")
                held.append(ahead)
                plan.append(f"gather {ahead}")
        plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
        if unit not in passes[place + 1 :]:
            held.remove(unit)
            plan.append(f"free {unit}")
    return plan
