# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% backward_in_forward_order of="right_as_taught"
"""Wrong: the backward begins with the first unit."""

# -    passes = [*range(num_units), *reversed(range(num_units))]
# +    passes = [*range(num_units), *range(num_units)]

# %% frees_what_comes_next of="right_as_taught"
"""Wrong: frees each unit behind its pass, and gathers the last again at once."""

# -        done = held - set(passes[place + 1 : place + prefetch + 2])
# +        done = {unit}

# %% gathers_anew_for_each_pass of="right_as_taught"
"""Wrong: gathers what is there already."""

# -            if ahead not in held:
# -                plan.append(f"gather {ahead}")
# -                held.add(ahead)
# +            plan.append(f"gather {ahead}")
# +            held.add(ahead)

# %% gathers_behind_the_pass of="right_as_taught"
"""Wrong: starts the prefetch when the pass is over."""

# -        for ahead in passes[place : place + prefetch + 1]:
# +        for ahead in passes[place : place + 1]:

#          plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
# +        plan += [f"gather {one}" for one in dict.fromkeys(passes[place + 1 : place + prefetch + 1]) if one not in held]
# +        held |= set(passes[place + 1 : place + prefetch + 1])

# %% gathers_one_more of="right_as_taught"
"""Wrong: one unit more than the prefetch allows."""

# -        for ahead in passes[place : place + prefetch + 1]:
# +        for ahead in passes[place : place + prefetch + 2]:

# -        done = held - set(passes[place + 1 : place + prefetch + 2])
# +        done = held - set(passes[place + 1 : place + prefetch + 3])

# %% keeps_the_forward of="right_as_taught"
"""Wrong: frees in the backward only, as reshard_after_forward=False."""

# -        done = held - set(passes[place + 1 : place + prefetch + 2])
# +        done = held - set(passes[place + 1 :])

# %% leaves_the_first_unit of="right_as_taught"
"""Wrong: the first unit is never freed at the end."""

# -        plan += [f"free {other}" for other in sorted(done)]
# +        plan += [f"free {other}" for other in sorted(done) if place < 2 * num_units - 1]

# %% never_frees of="right_as_taught"
"""Wrong: frees everything at the end only."""

# -        done = held - set(passes[place + 1 : place + prefetch + 2])
# +        done = held if place == 2 * num_units - 1 else set()

# %% no_prefetch of="right_as_taught"
"""Wrong: prefetch 0 whatever is asked."""

# -    """The events of one step in order, such as "gather 3", "forward 3", "backward 3" and "free 3"."""
# +    prefetch = 0

# %% prefetch_one of="right_as_taught"
"""Wrong: prefetch 1 whatever is asked."""

# -    """The events of one step in order, such as "gather 3", "forward 3", "backward 3" and "free 3"."""
# +    prefetch = 1

# %% prefetches_forward_only of="right_as_taught"
"""Wrong: the backward gathers when it needs."""

# -        for ahead in passes[place : place + prefetch + 1]:
# +        for ahead in passes[place : place + (prefetch if place < num_units - 1 else 0) + 1]:

# -        done = held - set(passes[place + 1 : place + prefetch + 2])
# +        done = held - set(passes[place + 1 : place + (prefetch if place < num_units - 1 else 0) + 2])

# %% right_keeps_while_there_is_room
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


# %% right_recursion
"""Different: a generator, and a list for the window."""


def gather_plan(num_units, prefetch):
    def events():
        passes = [("forward", unit) for unit in range(num_units)]
        passes += [("backward", unit) for unit in range(num_units - 1, -1, -1)]
        there = []
        while passes:
            window = [unit for _, unit in passes[: prefetch + 1]]
            for unit in [one for one in there if one not in window]:
                there.remove(unit)
                yield "free", unit
            for unit in window:
                if unit not in there:
                    there.append(unit)
                    yield "gather", unit
            yield passes.pop(0)
        for unit in there:
            yield "free", unit

    return [f"{verb} {unit}" for verb, unit in events()]


# %% one_text
"""Wrong: one text instead of a list."""


def gather_plan(num_units, prefetch):
    return ", ".join(f"gather {unit}, forward {unit}, free {unit}" for unit in range(num_units))


# %% everything_at_once of="one_text"
"""Wrong: gathers all, uses all, frees all."""

# -    return ", ".join(f"gather {unit}, forward {unit}, free {unit}" for unit in range(num_units))
# +    units = range(num_units)
# +    plan = [f"gather {unit}" for unit in units] + [f"forward {unit}" for unit in units]
# +    plan += [f"backward {unit}" for unit in reversed(units)]
# +    return plan + [f"free {unit}" for unit in units]

# %% public_sizes of="one_text"
"""Wrong: three units and four, nothing else.

Not in sight: it knows both visible cases by heart.
"""

# -    return ", ".join(f"gather {unit}, forward {unit}, free {unit}" for unit in range(num_units))
# +    if num_units == 3:
# +        text = "g0 f0 r0 g1 f1 r1 g2 f2 b2 r2 g1 b1 r1 g0 b0 r0"
# +    else:
# +        text = "g0 g1 f0 r0 g2 f1 r1 g3 f2 r2 f3 g2 b3 r3 g1 b2 r2 g0 b1 r1 b0 r0"
# +    verbs = {"g": "gather", "f": "forward", "b": "backward", "r": "free"}
# +    return [f"{verbs[one[0]]} {one[1:]}" for one in text.split()]
