# %% right_as_taught
"""Different: as the page solves it, with bytes of its own."""


def sent_bytes(model, layout):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = 2 * layout["b"] * model["sequence"] / cp
    return {
        "tp": m * model["layers"] / pp * (6 if again else 4) * 2 * (tp - 1) / tp * positions * model["hidden"],
        "cp": m * model["layers"] / pp * (4 if again else 3) * (cp - 1) * 2 * positions * model["kv"] / tp,
        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
        "dp": (ranks - 1) / ranks * 6 * share,
    }


def link(gpu, size, stride, collective):
    if size * stride <= gpu["per_server"]:
        return gpu["nvlink"]
    cards = max(1, gpu["per_server"] // stride) if collective else 1
    return min(gpu["nvlink"], cards * gpu["network"])


def step_seconds(model, layout, gpu):
    sent, m = sent_bytes(model, layout), layout["m"]
    tokens = layout["b"] * model["sequence"] / layout["cp"]
    share = model["parameters"] / (layout["tp"] * layout["pp"])
    ring = link(gpu, layout["cp"], layout["tp"], False)
    hop = link(gpu, layout["pp"], layout["tp"] * layout["cp"] * layout["dp"], False)
    copies = link(gpu, layout["dp"] * layout["cp"], layout["tp"], True)
    slot = (8 if layout["recompute"] else 6) * share * tokens / gpu["flops"]
    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies


def bill(model, layout, gpu, tokens):
    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
    per_step = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
    seconds = step_seconds(model, layout, gpu)
    days = tokens / per_step * seconds / 86400
    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]


# %% no_bubble of="right_as_taught"
"""Wrong: m slots."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return m * slot + sent["dp"] / copies

# %% chunks_change_nothing of="right_as_taught"
"""Wrong: the whole bubble, whatever the chunks."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return (m + layout["pp"] - 1) * slot + sent["dp"] / copies

# %% one_slot_too_many of="right_as_taught"
"""Wrong: m + pp slots."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return (m + layout["pp"] / layout["chunks"]) * slot + sent["dp"] / copies

# %% a_step_in_a_slot of="right_as_taught"
"""Wrong: each slot has the bytes of a step."""

# -    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
# +    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop)

# %% overlapped of="right_as_taught"
"""Wrong: what is longer, work or messages."""

# -    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
# +    slot = max(slot, (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m)

# %% ring_over_nvlink of="right_as_taught"
"""Wrong: keys travel over NVLink everywhere."""

# -    ring = link(gpu, layout["cp"], layout["tp"], False)
# +    ring = gpu["nvlink"]

# %% ring_over_the_network of="right_as_taught"
"""Wrong: keys travel over the network everywhere."""

# -    ring = link(gpu, layout["cp"], layout["tp"], False)
# +    ring = gpu["network"]

# %% servers_of_one_axis of="right_as_taught"
"""Wrong: asks whether cp alone fits into a server."""

# -    ring = link(gpu, layout["cp"], layout["tp"], False)
# +    ring = link(gpu, layout["cp"], 1, False)

# %% a_ring_through_all_cards of="right_as_taught"
"""Wrong: hands keys around through every card at once."""

# -    ring = link(gpu, layout["cp"], layout["tp"], False)
# +    ring = link(gpu, layout["cp"], layout["tp"], True)

# %% tensor_over_the_network of="right_as_taught"
"""Wrong: tensor parallelism over the network."""

# -    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
# +    slot += (sent["tp"] / gpu["network"] + sent["cp"] / ring + sent["pp"] / hop) / m

# %% boundaries_over_nvlink of="right_as_taught"
"""Wrong: stages joined by NVLink."""

# -    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
# +    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / gpu["nvlink"]) / m

# %% recomputes_nothing of="right_as_taught"
"""Wrong: 6 FLOPs, recomputed or not."""

# -    slot = (8 if layout["recompute"] else 6) * share * tokens / gpu["flops"]
# +    slot = 6 * share * tokens / gpu["flops"]

# %% at_the_peak of="right_as_taught"
"""Wrong: work at the data sheet's peak."""

# -    slot = (8 if layout["recompute"] else 6) * share * tokens / gpu["flops"]
# +    slot = (8 if layout["recompute"] else 6) * share * tokens / gpu["peak"]

# %% whole_sequences of="right_as_taught"
"""Wrong: each context rank works on the whole sequence."""

# -    tokens = layout["b"] * model["sequence"] / layout["cp"]
# +    tokens = layout["b"] * model["sequence"]

# %% no_gradients of="right_as_taught"
"""Wrong: forgets data parallelism."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot

# %% gradients_hidden of="right_as_taught"
"""Wrong: gradients over NVLink."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / gpu["nvlink"]

# %% gradients_through_one_card of="right_as_taught"
"""Wrong: one network card for all copies on a server."""

# -    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies
# +    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / gpu["network"]

# %% hfu of="right_as_taught"
"""Wrong: counts what is done again."""

# -    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
# +    return (8 if layout["recompute"] else 6) * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]

# %% of_what_is_reached of="right_as_taught"
"""Wrong: a share of what GPUs reach, not of the peak."""

# -    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
# +    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["flops"]), days, 24 * days * gpus * gpu["dollars"]

# %% one_gpu of="right_as_taught"
"""Wrong: dollars of one GPU."""

# -    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
# +    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpu["dollars"]

# %% dollars_a_day of="right_as_taught"
"""Wrong: a price per day."""

# -    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
# +    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, days * gpus * gpu["dollars"]

# %% cp_has_data of="right_as_taught"
"""Wrong: context ranks have sequences of their own."""

# -    per_step = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
# +    per_step = layout["b"] * layout["m"] * layout["dp"] * layout["cp"] * model["sequence"]

# %% hours of="right_as_taught"
"""Wrong: hours for days."""

# -    days = tokens / per_step * seconds / 86400
# +    days = tokens / per_step * seconds / 3600

# %% three_axes of="right_as_taught"
"""Wrong: forgets the context ranks among the GPUs."""

# -    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
# +    gpus = layout["tp"] * layout["pp"] * layout["dp"]

# %% a_dict of="right_as_taught"
"""Wrong: names for numbers."""

# -    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
# +    return {"days": days, "dollars": 24 * days * gpus * gpu["dollars"]}

# %% right_busy_and_idle
"""Different: a stage's busy seconds, then what it waits for the others; whole steps; seconds of each axis."""

import math


def step_seconds(model, layout, gpu):
    b, m, tp, cp, pp, dp = (layout[name] for name in ("b", "m", "tp", "cp", "pp", "dp"))
    chunks, again = layout["chunks"], 1 if layout["recompute"] else 0
    own = model["parameters"] / tp / pp
    positions, layers = b * model["sequence"] / cp, model["layers"] / pp
    compute = (2 + 4 + 2 * again) * own * positions / gpu["flops"]
    tensor = layers * (4 + 2 * again) * (2 - 2 / tp) * 2 * positions * model["hidden"] / gpu["nvlink"]
    here, card, whole = gpu["per_server"], min(gpu["network"], gpu["nvlink"]), tp * cp * dp * pp
    near = {"cp": tp * cp <= here, "pp": whole <= here, "dp": whole // pp <= here}
    context = (
        layers * (3 + again) * (cp - 1) * 4 * positions * model["kv"] / tp / (gpu["nvlink"] if near["cp"] else card)
    )
    hop = (pp != 1) * 4 * chunks * positions * model["hidden"] / tp / (gpu["nvlink"] if near["pp"] else card)
    microbatch = compute + tensor + context + hop
    bubble = (pp - 1) * microbatch / chunks
    same = dp * cp
    cards = min(gpu["nvlink"], sum(gpu["network"] for _ in range(max(1, here // tp))))
    gradients = (4 + 2) * own * (1 - 1 / same) / (gpu["nvlink"] if near["dp"] else cards)
    return m * microbatch + bubble + gradients


def bill(model, layout, gpu, tokens):
    seconds = step_seconds(model, layout, gpu)
    batch = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
    gpus = math.prod(layout[axis] for axis in ("tp", "cp", "pp", "dp"))
    steps = math.ceil(tokens / batch)
    hours = steps * seconds / 3600
    reached = 6 * model["parameters"] * batch / seconds / gpus
    return [reached / gpu["peak"], hours / 24, hours * gpus * gpu["dollars"]]
