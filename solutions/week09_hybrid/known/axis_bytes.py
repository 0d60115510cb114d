# %% right_steps
"""Different: one line a number."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    def ring(ranks, num_bytes):
        return 2 * (ranks - 1) / ranks * num_bytes

    payload = 2 * microbatch * sequence * hidden
    forward = layers // pp * 2 * ring(tp, payload)
    return payload, ring(tp, payload), forward, payload if pp > 1 else 0, ring(dp, 2 * parameters)


# %% right_tensor
"""Different: one tensor of five numbers."""

import torch


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    p = 2 * microbatch * sequence * hidden
    o = 2 * (tp - 1) / tp * p
    return torch.tensor(
        [p, o, 2 * layers / pp * o, p if pp > 1 else 0, 4 * (dp - 1) / dp * parameters], dtype=torch.float64
    )


# %% right_whole_numbers
"""Different: multiplies before it divides, as a list."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = microbatch * sequence * hidden * 2
    one = payload * 2 * (tp - 1) / tp
    return [payload, one, one * 2 * layers / pp, payload * (pp != 1), parameters * 4 * (dp - 1) / dp]


# %% all_layers
"""Wrong: a rank has a p-th of the layers."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = 2 * microbatch * sequence * hidden
    one = 2 * (tp - 1) / tp * payload
    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]


# %% both_directions of="all_layers"
"""Wrong: counts the backward with the forward."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 4 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% boundary_is_a_ring of="all_layers"
"""Wrong: a boundary is a message, not a ring."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, (pp - 1) / pp * payload, 4 * (dp - 1) / dp * parameters]

# %% boundary_without_pipeline of="all_layers"
"""Wrong: sends to a next stage that there is not."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload, 4 * (dp - 1) / dp * parameters]

# %% elements_for_bytes of="all_layers"
"""Wrong: counts numbers, not bytes."""

# -    payload = 2 * microbatch * sequence * hidden
# +    payload = microbatch * sequence * hidden

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% fp32_gradients of="all_layers"
"""Wrong: gradients of four bytes."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 8 * (dp - 1) / dp * parameters]

# %% gpt3_alone of="all_layers"
"""Wrong: returns the numbers of the page."""

# -    payload = 2 * microbatch * sequence * hidden
# -    one = 2 * (tp - 1) / tp * payload
# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [50331648, 88080384, 4227858432, 50331648, 21065651712]

# %% gradients_held of="all_layers"
"""Wrong: the bytes of gradients that a rank holds, not what it sends."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 2 * parameters]

# %% gradients_over_the_world of="all_layers"
"""Wrong: reduces gradients over all ranks."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (1 - 1 / (tp * pp * dp)) * parameters]

# %% no_microbatch of="all_layers"
"""Wrong: forgets the size of a microbatch."""

# -    payload = 2 * microbatch * sequence * hidden
# +    payload = 2 * sequence * hidden

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% one_all_reduce_a_layer of="all_layers"
"""Wrong: attention and MLP have one each, this counts one."""

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% one_half of="all_layers"
"""Wrong: an all-reduce is two halves; this sends one."""

# -    one = 2 * (tp - 1) / tp * payload
# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    one = (tp - 1) / tp * payload
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% payload_is_cut of="all_layers"
"""Wrong: takes the activation as cut over the tensor-parallel ranks."""

# -    payload = 2 * microbatch * sequence * hidden
# +    payload = 2 * microbatch * sequence * hidden / tp

# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% sends_the_payload of="all_layers"
"""Wrong: takes what is reduced for what is sent."""

# -    one = 2 * (tp - 1) / tp * payload
# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    one = payload
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]

# %% two_n_minus_one of="all_layers"
"""Wrong: 2(N-1) payloads, as through one rank."""

# -    one = 2 * (tp - 1) / tp * payload
# -    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
# +    one = 2 * (tp - 1) * payload
# +    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
