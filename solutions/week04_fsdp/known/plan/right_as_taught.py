"""Different: as the page solves it."""


def gather_plan(num_units, prefetch):
    passes = [*range(num_units), *reversed(range(num_units))]
    plan, held = [], set()
    for place, unit in enumerate(passes):
        for ahead in passes[place : place + prefetch + 1]:
            if ahead not in held:
                plan.append(f"gather {ahead}")
                held.add(ahead)
        plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
        done = held - set(passes[place + 1 : place + prefetch + 2])
        plan += [f"free {other}" for other in sorted(done)]
        held -= done
    return plan
