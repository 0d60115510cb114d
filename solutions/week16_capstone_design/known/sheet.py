# %% right_as_taught
"""Different: as the page solves it."""


def gpu_bytes(model, layout):
    tp, cp, pp, chunks = (layout[name] for name in ("tp", "cp", "pp", "chunks"))
    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
    in_flight = model["layers"] / pp * min(pp, layout["m"])
    if chunks > 1:
        in_flight = model["layers"] * (1 + (pp - 1) / (pp * chunks))
    kept = 2 * in_flight + 34 if layout["recompute"] else 34 * in_flight
    return states + per_byte * kept


def sent_bytes(model, layout):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = 2 * layout["b"] * model["sequence"] / cp
    reduced = 2 * (tp - 1) / tp * positions * model["hidden"]
    blocks = (cp - 1) * 2 * positions * model["kv"] / tp
    return {
        "tp": m * model["layers"] / pp * (6 if again else 4) * reduced,
        "cp": m * model["layers"] / pp * (4 if again else 3) * blocks,
        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
        "dp": (ranks - 1) / ranks * 6 * share,
    }


# %% cp_copies_nothing of="right_as_taught"
"""Wrong: cuts the optimizer over dp alone."""

# -    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
# +    states = model["parameters"] / (tp * pp) * (6 + 12 / layout["dp"])

# %% cp_cuts_the_model of="right_as_taught"
"""Wrong: takes context parallelism for a cut of the weights."""

# -    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
# +    states = model["parameters"] / (tp * pp * cp) * (6 + 12 / (layout["dp"] * cp))

# %% nothing_sharded of="right_as_taught"
"""Wrong: every rank has the whole optimizer."""

# -    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
# +    states = model["parameters"] / (tp * pp) * 18

# %% two_byte_gradients of="right_as_taught"
"""Wrong: gradients in bf16."""

# -    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
# +    states = model["parameters"] / (tp * pp) * (4 + 12 / (layout["dp"] * cp))

# %% one_microbatch of="right_as_taught"
"""Wrong: holds one microbatch."""

# -    in_flight = model["layers"] / pp * min(pp, layout["m"])
# +    in_flight = model["layers"] / pp

# %% always_pp of="right_as_taught"
"""Wrong: pp microbatches, even where there are fewer."""

# -    in_flight = model["layers"] / pp * min(pp, layout["m"])
# +    in_flight = model["layers"] / pp * pp

# %% gpipe of="right_as_taught"
"""Wrong: all microbatches are held."""

# -    in_flight = model["layers"] / pp * min(pp, layout["m"])
# +    in_flight = model["layers"] / pp * layout["m"]

# %% chunks_are_free of="right_as_taught"
"""Wrong: chunks hold nothing more."""

# -    if chunks > 1:
# -        in_flight = model["layers"] * (1 + (pp - 1) / (pp * chunks))

# %% recomputes_for_nothing of="right_as_taught"
"""Wrong: forgets the layer that is computed again."""

# -    kept = 2 * in_flight + 34 if layout["recompute"] else 34 * in_flight
# +    kept = 2 * in_flight if layout["recompute"] else 34 * in_flight

# %% whole_inputs of="right_as_taught"
"""Wrong: inputs of recomputed layers are whole on each tensor rank."""

# -    kept = 2 * in_flight + 34 if layout["recompute"] else 34 * in_flight
# +    kept = 2 * tp * in_flight + 34 if layout["recompute"] else 34 * in_flight

# %% no_sequence_parallelism of="right_as_taught"
"""Wrong: activations are not cut by tp."""

# -    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
# +    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"]

# %% whole_sequence of="right_as_taught"
"""Wrong: activations of the whole sequence."""

# -    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
# +    per_byte = model["sequence"] * layout["b"] * model["hidden"] / tp

# %% forward_alone of="right_as_taught"
"""Wrong: all-reduces of the forward."""

# -        "tp": m * model["layers"] / pp * (6 if again else 4) * reduced,
# +        "tp": m * model["layers"] / pp * 2 * reduced,

# %% recomputation_sends_nothing of="right_as_taught"
"""Wrong: a repeated forward has no all-reduces."""

# -        "tp": m * model["layers"] / pp * (6 if again else 4) * reduced,
# +        "tp": m * model["layers"] / pp * 4 * reduced,

# %% tensors_once of="right_as_taught"
"""Wrong: an all-reduce sends the tensor once."""

# -    reduced = 2 * (tp - 1) / tp * positions * model["hidden"]
# +    reduced = (tp - 1) / tp * positions * model["hidden"]

# %% ring_forward_alone of="right_as_taught"
"""Wrong: keys travel in the forward only."""

# -        "cp": m * model["layers"] / pp * (4 if again else 3) * blocks,
# +        "cp": m * model["layers"] / pp * 1 * blocks,

# %% no_gradients_of_keys of="right_as_taught"
"""Wrong: their gradients stay where they are."""

# -        "cp": m * model["layers"] / pp * (4 if again else 3) * blocks,
# +        "cp": m * model["layers"] / pp * (3 if again else 2) * blocks,

# %% all_heads of="right_as_taught"
"""Wrong: keys as wide as queries."""

# -    blocks = (cp - 1) * 2 * positions * model["kv"] / tp
# +    blocks = (cp - 1) * 2 * positions * model["hidden"] / tp

# %% keys_alone of="right_as_taught"
"""Wrong: forgets the values."""

# -    blocks = (cp - 1) * 2 * positions * model["kv"] / tp
# +    blocks = (cp - 1) * positions * model["kv"] / tp

# %% pipeline_one_way of="right_as_taught"
"""Wrong: no gradient comes back."""

# -        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
# +        "pp": m * layout["chunks"] * positions * model["hidden"] / tp if pp > 1 else 0,

# %% chunks_send_once of="right_as_taught"
"""Wrong: a stage sends once, whatever its chunks."""

# -        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
# +        "pp": m * 2 * positions * model["hidden"] / tp if pp > 1 else 0,

# %% whole_boundaries of="right_as_taught"
"""Wrong: each tensor rank sends the whole activation."""

# -        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
# +        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] if pp > 1 else 0,

# %% sends_without_a_pipeline of="right_as_taught"
"""Wrong: one stage sends too."""

# -        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
# +        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp,

# %% all_reduce_in_bf16 of="right_as_taught"
"""Wrong: gradients in bf16, 4 bytes in all."""

# -        "dp": (ranks - 1) / ranks * 6 * share,
# +        "dp": (ranks - 1) / ranks * 4 * share,

# %% dp_alone of="right_as_taught"
"""Wrong: context ranks do not share gradients."""

# -    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
# +    share, ranks = model["parameters"] / (tp * pp), layout["dp"]

# %% whole_model_of_gradients of="right_as_taught"
"""Wrong: sends gradients of the whole model."""

# -    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
# +    share, ranks = model["parameters"], layout["dp"] * cp

# %% one_microbatch_sent of="right_as_taught"
"""Wrong: bytes of a microbatch, not of a step."""

# -        "tp": m * model["layers"] / pp * (6 if again else 4) * reduced,
# +        "tp": model["layers"] / pp * (6 if again else 4) * reduced,

# %% a_list of="right_as_taught"
"""Wrong: no names."""

# -    return {
# +    found = {

#      }
# +    return list(found.values())

# %% borrows_the_planner of="right_as_taught"
"""Wrong: asks the package."""

# -    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
# +    from shardlab.costs import zero_state_bytes
# +
# +    states = zero_state_bytes(model["parameters"] / (tp * pp), layout["dp"] * cp, 1, gradient_bytes=4).total

# %% right_fractions
"""Different: exact fractions, one term at a time, floats at the end."""

from fractions import Fraction


def gpu_bytes(model, layout):
    own = Fraction(model["parameters"], layout["tp"] * layout["pp"])
    same = layout["dp"] * layout["cp"]
    total = 2 * own + 4 * own + 12 * own / same
    width = Fraction(model["sequence"] * layout["b"] * model["hidden"], layout["cp"] * layout["tp"])
    if layout["chunks"] == 1:
        layers = Fraction(model["layers"], layout["pp"]) * min(layout["pp"], layout["m"])
    else:
        layers = model["layers"] + Fraction(model["layers"] * (layout["pp"] - 1), layout["pp"] * layout["chunks"])
    if layout["recompute"]:
        total += 2 * width * layers + 34 * width
    else:
        total += 34 * width * layers
    return float(total)


def sent_bytes(model, layout):
    b, s, cp, tp, pp = (layout["b"], model["sequence"], layout["cp"], layout["tp"], layout["pp"])
    activation = Fraction(2 * b * s * model["hidden"], cp)
    layers = Fraction(model["layers"], pp) * layout["m"]
    forward, backward = 2, 2
    if layout["recompute"]:
        backward += forward
    tensor = (forward + backward) * layers * activation * 2 * (tp - 1) / tp
    keys = Fraction(2 * b * s * model["kv"], cp * tp)
    rounds = 4 if layout["recompute"] else 3
    context = rounds * layers * (cp - 1) * (keys + keys)
    pipeline = 0
    if pp != 1:
        pipeline = layout["m"] * layout["chunks"] * (activation / tp + activation / tp)
    n = layout["dp"] * cp
    own = Fraction(model["parameters"], tp * pp)
    data = own * 4 * (n - 1) / n + own * 2 * (n - 1) / n
    return {"dp": float(data), "pp": float(pipeline), "cp": float(context), "tp": float(tensor)}
