# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% right_matrix_by_matrix
"""Different: counts every matrix and bias; a function per source."""


def gpt2(n):
    h, t = n["hidden"], n["tp"]
    qkv = 3 * h * h // t + 3 * h // t
    proj = h * h // t + h
    up = 4 * h * h // t + 4 * h // t
    down = 4 * h * h // t + h
    norms = 4 * h
    layer = qkv + proj + up + down + norms
    body = layer * (n["layers"] // n["pp"]) + n["vocab"] * h // t
    return (body + n["positions"] * h, body + 2 * h)


def mt_nlg(n):
    h, depth, s, v = (float(n[k]) for k in ("hidden", "layers", "sequence", "vocab"))
    per_token = 8 * (12 * depth * h * h + 2 * depth * s * h) + 6 * v * h
    return (per_token * s * n["sequences"] / (n["gpus"] * n["seconds"]),)


def alpa(n):
    used = n["hardware"] / n["peak"]
    return used, used - used / 4


def colossal(n):
    p = n["q"] * n["q"] * n["q"]
    return 2 - 2 / p, 6 * (n["q"] - 1) / p


def bridge(n):
    return (n["world"] / n["tp"] / n["pp"] / n["cp"],)


def large_layer(n):
    size, ranks = n["parameters"], n["gpus"]
    return size * 16.0, size * (2 + 16 / ranks), size * 16.0 / ranks


def reproduce(source, n):
    order = "accelerate", "transformers", "mt-nlg", "alpa-ray", "colossalai", "megatron-bridge"
    return list((gpt2, large_layer, mt_nlg, alpa, colossal, bridge)[order.index(source)](n))


# %% no_biases of="right_as_taught"
"""Wrong: matrices and norms alone."""

# -        layers = n["layers"] // n["pp"] * (12 * h * h // tp + 7 * h // tp + 6 * h)
# +        layers = n["layers"] // n["pp"] * (12 * h * h // tp + 4 * h)

# %% every_bias_is_split of="right_as_taught"
"""Wrong: splits the biases of row-parallel layers, which every rank adds once, after the sum."""

# -        layers = n["layers"] // n["pp"] * (12 * h * h // tp + 7 * h // tp + 6 * h)
# +        layers = n["layers"] // n["pp"] * (12 * h * h // tp + 9 * h // tp + 4 * h)

# %% positions_on_both of="right_as_taught"
"""Wrong: positions on the last stage as well."""

# -        return [layers + table + n["positions"] * h, layers + table + 2 * h]
# +        return [layers + table + n["positions"] * h, layers + table + n["positions"] * h]

# %% without_recomputation of="right_as_taught"
"""Wrong: 72, the FLOPs of a step without recomputation."""

# -        flops = 96 * n["sequences"] * s * layers * h**2 * (1 + s / (6 * h) + n["vocab"] / (16 * layers * h))
# +        flops = 72 * n["sequences"] * s * layers * h**2 * (1 + s / (6 * h) + n["vocab"] / (12 * layers * h))

# %% hardware_is_mfu of="right_as_taught"
"""Wrong: takes the hardware's FLOPs for the model's."""

# -        return [n["hardware"] / n["peak"], 3 / 4 * n["hardware"] / n["peak"]]
# +        return [n["hardware"] / n["peak"], n["hardware"] / n["peak"]]

# %% q_ranks of="right_as_taught"
"""Wrong: 1D tensor parallelism over q ranks."""

# -        return [2 * (n["q"] ** 3 - 1) / n["q"] ** 3, 6 * (n["q"] - 1) / n["q"] ** 3]
# +        return [2 * (n["q"] - 1) / n["q"], 6 * (n["q"] - 1) / n["q"] ** 3]

# %% cp_is_no_axis of="right_as_taught"
"""Wrong: forgets that context parallelism takes ranks."""

# -    return [n["world"] // (n["tp"] * n["pp"] * n["cp"])]
# +    return [n["world"] // (n["tp"] * n["pp"])]

# %% gathered_weights_are_free of="right_as_taught"
"""Wrong: forgets the whole weights that ZeRO-3 gathers, so ZeRO looks like tensor parallelism."""

# -        return [states, states / n["gpus"] + weights, states / n["gpus"]]
# +        return [states, states / n["gpus"], states / n["gpus"]]
