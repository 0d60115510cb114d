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
