# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% activations_not_split of="right_as_taught"
"""Wrong: forgets that sequence parallelism splits activations."""

# -    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp
# +    return states + in_flight * 34 * model["sequence"] * b * model["hidden"]

# %% all_microbatches of="right_as_taught"
"""Wrong: GPipe's memory: every microbatch is held."""

# -    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
# +    in_flight = (sequences // (dp * b)) * model["layers"] / pp

# %% below_the_half of="right_as_taught"
"""Wrong: keeps what needs less than half."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes / 2]

# %% keeps_all of="right_as_taught"
"""Wrong: prunes nothing."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return [layout for layout in candidates]

# %% keeps_the_scores of="right_as_taught"
"""Wrong: adds 5as/h, which a fused attention does not keep."""

# -    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp
# +    return (
# +        states
# +        + in_flight
# +        * (34 + 5 * model["heads"] * model["sequence"] / model["hidden"])
# +        * model["sequence"]
# +        * b
# +        * model["hidden"]
# +        / tp
# +    )

# %% keeps_what_does_not_fit of="right_as_taught"
"""Wrong: the other way round."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return [layout for layout in candidates if rank_bytes(model, layout, sequences) > limit_bytes]

# %% more_than_there_are of="right_as_taught"
"""Wrong: pp microbatches even where there are fewer."""

# -    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
# +    in_flight = pp * model["layers"] / pp

# %% no_activations of="right_as_taught"
"""Wrong: states alone."""

# -    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp
# +    return states + 0 * in_flight * 34 * model["sequence"] * b * model["hidden"] / tp

# %% no_microbatch_size of="right_as_taught"
"""Wrong: a microbatch of one sequence."""

# -    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp
# +    return states + in_flight * 34 * model["sequence"] * model["hidden"] / tp

# %% nothing_sharded of="right_as_taught"
"""Wrong: whole optimizer on every rank."""

# -    states = model["parameters"] / (tp * pp) * (2 + 4 + 12 / dp)
# +    states = model["parameters"] / (tp * pp) * (2 + 4 + 12)

# %% one_microbatch of="right_as_taught"
"""Wrong: one microbatch at a time."""

# -    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
# +    in_flight = model["layers"] / pp

# %% sorts of="right_as_taught"
"""Wrong: changes the order."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return sorted((layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes), reverse=True)

# %% sorts_ascending of="right_as_taught"
"""Wrong: sorts, where the order given is asked for."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return sorted(layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes)

# %% stops_at_the_first of="right_as_taught"
"""Wrong: the first that fits."""

# -    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes]
# +    return [layout for layout in candidates if rank_bytes(model, layout, sequences) <= limit_bytes][:1]

# %% tensor_parallel_alone of="right_as_taught"
"""Wrong: sbh(10 + 24/t), without sequence parallelism."""

# -    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp
# +    return states + in_flight * (10 * tp + 24) * model["sequence"] * b * model["hidden"] / tp

# %% two_byte_gradients of="right_as_taught"
"""Wrong: gradients of 2 bytes."""

# -    states = model["parameters"] / (tp * pp) * (2 + 4 + 12 / dp)
# +    states = model["parameters"] / (tp * pp) * (2 + 2 + 12 / dp)

# %% whole_model of="right_as_taught"
"""Wrong: activations of all layers on every stage."""

# -    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
# +    in_flight = min(pp, sequences // (dp * b)) * model["layers"]

# %% right_filter
"""Different: a class for a rank, and filter."""


class Rank:
    def __init__(self, model, layout, sequences):
        self.tp, self.pp, self.dp, self.b = layout
        self.model, self.waiting = model, sequences // self.dp // self.b

    def states(self):
        mine = self.model["parameters"] / self.tp / self.pp
        return 6 * mine + 12 * mine / self.dp

    def activations(self):
        layer = 34 * self.b * self.model["sequence"] * self.model["hidden"] / self.tp
        held = self.pp if self.waiting > self.pp else self.waiting
        return held * layer * self.model["layers"] / self.pp


def rank_bytes(model, layout, sequences):
    rank = Rank(model, layout, sequences)
    return rank.states() + rank.activations()


def fitting(candidates, model, sequences, limit_bytes):
    return list(filter(lambda layout: rank_bytes(model, layout, sequences) <= limit_bytes, candidates))


# %% right_vectors
"""Different: all layouts at once, as tensors."""

import torch


def rank_bytes(model, layout, sequences):
    return all_bytes(model, torch.tensor([layout], dtype=torch.float64), sequences)[0].item()


def all_bytes(model, table, sequences):
    tp, pp, dp, b = table.T
    states = model["parameters"] / (tp * pp) * (6 + 12 / dp)
    held = torch.minimum(pp, (sequences / (dp * b)).floor())
    return states + held * model["layers"] / pp * 34 * model["sequence"] * b * model["hidden"] / tp


def fitting(candidates, model, sequences, limit_bytes):
    table = torch.tensor(candidates, dtype=torch.float64)
    keep = all_bytes(model, table, sequences) <= limit_bytes
    return [layout for layout, kept in zip(candidates, keep.tolist(), strict=True) if kept]
