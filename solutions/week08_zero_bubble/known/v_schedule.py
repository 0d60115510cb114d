# %% right_other_wishes
"""Different: I before F where memory is short; passes as tuples with dependencies written out."""


def v_schedule(num_ranks, num_microbatches, max_activations):
    last = 2 * num_ranks - 1
    finished = {(letter, stage): 0 for letter in "FIW" for stage in range(last + 1)}
    held, texts = [0] * num_ranks, [[] for _ in range(num_ranks)]

    def is_ready(letter, stage):
        m = finished[letter, stage]
        if m == num_microbatches:
            return False
        if letter == "F":
            return stage == 0 or finished["F", stage - 1] > m
        if letter == "I":
            return finished["F", stage] > m and (stage == last or finished["I", stage + 1] > m)
        return finished["I", stage] > m

    def choose(rank):
        down, up = rank, last - rank
        room = max_activations - held[rank]
        if room > 0 and is_ready("F", up):
            return "F", up
        if max_activations == 2 * num_ranks and room > 1 and is_ready("F", down):
            return "F", down
        if is_ready("I", up):
            return "I", up
        if room > 1 and is_ready("F", down):
            return "F", down
        return next(((letter, stage) for letter in "IW" for stage in (up, down) if is_ready(letter, stage)), None)

    while any(count < num_microbatches for count in finished.values()):
        chosen = [choose(rank) for rank in range(num_ranks)]
        for rank, choice in enumerate(chosen):
            if choice:
                letter, stage = choice
                texts[rank].append(f"{stage}{letter}{finished[choice]}")
                finished[choice] += 1
                held[rank] += {"F": 1, "I": 0, "W": -1}[letter]
    return texts


# %% right_up_first
"""Different: whatever leads up comes first, forward and backward."""

from collections import Counter

from shardlab.pipeline_parallel.schedule import Action, inputs_of


def v_schedule(num_ranks, num_microbatches, max_activations):
    stages, done, begun = 2 * num_ranks, set(), Counter()
    lanes = [[] for _ in range(num_ranks)]
    while len(done) < 3 * stages * num_microbatches:
        tick = []
        for rank, lane in enumerate(lanes):
            down, up = rank, stages - 1 - rank
            room = max_activations - sum((a.kind == "F") - (a.kind == "W") for a in lane)
            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
            wishes += [("I", down), ("W", down), ("W", up)]
            actions = [Action(*wish, begun[wish]) for wish in wishes if begun[wish] < num_microbatches]
            action = next((action for action in actions if done.issuperset(inputs_of(action, stages))), None)
            if action:
                begun[action.kind, action.stage] += 1
                lane.append(action)
                tick.append(action)
        if not tick:
            break
        done.update(tick)
    return [[str(action) for action in lane] for lane in lanes]


# %% forgets_the_bound of="right_up_first"
"""Wrong: holds as much as it likes."""

# -            room = max_activations - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            room = 2 * num_microbatches
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% full_backwards of="right_up_first"
"""Wrong: I and its W in one go, so that nothing fills the waits."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            owed = next((a for a in lane if a.kind == "I" and Action("W", a.stage, a.microbatch) not in done), None)
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1) + [("I", up), ("I", down)]
# +            wishes = [("W", owed.stage)] if owed else wishes

# %% gradients_before_forwards of="right_up_first"
"""Wrong: no F before both I, too slow for ZBV with 3 ranks and an odd M."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("I", down), ("I", up)] + [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("W", up), ("W", down)]

# %% gradients_down_first of="right_up_first"
"""Wrong: the gradient of the way down before that of the way up, too slow for ZBV with 3 ranks and M = 8, 11, ..."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("F", up)] * (room > 0) + [("I", down)] + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("W", up), ("W", down)]

# %% half_only of="right_up_first"
"""Wrong: uses half the memory whatever it may; little bubble where none is due."""

# -            room = max_activations - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            room = num_ranks + 2 - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% held_until_the_input_gradient of="right_up_first"
"""Wrong: gives activations back at I, though W still needs them."""

# -            room = max_activations - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            room = max_activations - sum((a.kind == "F") - (a.kind == "I") for a in lane)
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% loop_for_a_v of="right_up_first"
"""Wrong: rank r holds stage r and stage P + r, a loop and not a V."""

# -            down, up = rank, stages - 1 - rank
# +            down, up = rank, num_ranks + rank

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% no_place_for_the_way_up of="right_up_first"
"""Wrong: forwards of the way down fill the memory, and no rank can go on."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 0)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% one_microbatch_at_a_time of="right_up_first"
"""Wrong: a microbatch begins when the one before is through."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room == max_activations)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]

# %% one_weight_before_the_way_down of="right_up_first"
"""Wrong: a greedy that keeps the time for some numbers of microbatches alone."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("I", up)] + [("F", up)] * (room > 0) + [("I", down), ("W", up)]
# +            wishes += [("F", down)] * (room > 1) + [("W", down)]

# %% weights_before_the_way_down of="right_up_first"
"""Wrong: W before F of the way down, so that the pipeline fills slowly."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("F", up)] * (room > 0) + [("I", up), ("I", down), ("W", up), ("W", down)]
# +            wishes += [("F", down)] * (room > 1)

# %% weights_first of="right_up_first"
"""Wrong: W as soon as it can be done, while others wait for an I."""

# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            wishes = [("W", up), ("W", down)] + [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down)]

# %% zbv_only of="right_up_first"
"""Wrong: uses 1F1B's memory whatever it is allowed."""

# -            room = max_activations - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# -            wishes = [("F", up)] * (room > 0) + [("I", up)] + [("F", down)] * (room > 1)
# -            wishes += [("I", down), ("W", down), ("W", up)]
# +            room = 2 * num_ranks - sum((a.kind == "F") - (a.kind == "W") for a in lane)
# +            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)
# +            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]
