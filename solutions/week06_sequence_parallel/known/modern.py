# %% right_by_shapes
"""Different: shapes and bytes per number of every saved tensor, added up by part."""

from math import prod


def modern_layer_bytes(s, b, h, a, k, d, f):
    x, one_number = ((s, b, h), 2), ((s, b, 1), 4)
    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 4)
    wide = ((s, b, f), 2)
    parts = [
        [x, one_number, x, one_number],
        [x, x],
        [queries, keys, keys, sums, queries],
        [wide, wide, wide, wide],
    ]
    return tuple(sum(prod(shape) * each for shape, each in part) for part in parts)


# %% layer_norm of="right_by_shapes"
"""Wrong: a LayerNorm in float32, which also keeps the mean."""

# -        [x, one_number, x, one_number],
# +        [x, one_number, one_number, x, one_number, one_number],

# %% scale_in_bf16 of="right_by_shapes"
"""Wrong: the norm's number and the kernel's sums take two bytes, like everything else."""

# -    x, one_number = ((s, b, h), 2), ((s, b, 1), 4)
# +    x, one_number = ((s, b, h), 2), ((s, b, 1), 2)

# %% sums_in_bf16 of="right_by_shapes"
"""Wrong: the kernel's sums of exponentials as bf16."""

# -    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 4)
# +    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 2)

# %% sums_of_key_heads of="right_by_shapes"
"""Wrong: one sum of exponentials for each key head."""

# -    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 4)
# +    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, k), 4)

# %% copies_of_keys of="right_by_shapes"
"""Wrong: every query head gets its own copy of its keys and values."""

# -    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 4)
# +    queries, keys, sums = ((s, b, a, d), 2), ((s, b, a, d), 2), ((s, b, a), 4)

# %% heads_fill_the_hidden_size of="right_by_shapes"
"""Wrong: takes the queries to be as wide as the hidden size."""

# -    queries, keys, sums = ((s, b, a, d), 2), ((s, b, k, d), 2), ((s, b, a), 4)
# +    queries, keys, sums = ((s, b, h), 2), ((s, b, k, d), 2), ((s, b, a), 4)

# %% output_twice of="right_by_shapes"
"""Wrong: counts attention's output once for the kernel and once for the projection."""

# -        [queries, keys, keys, sums, queries],
# +        [queries, keys, keys, sums, queries, queries],

# %% scores_kept of="right_by_shapes"
"""Wrong: attention still keeps its softmax."""

# -        [queries, keys, keys, sums, queries],
# +        [queries, keys, keys, ((b, a, s, s), 2), queries],

# %% input_for_each_matrix of="right_by_shapes"
"""Wrong: queries, keys and values each keep their input, and so do gate and up."""

# -        [x, x],
# +        [x, x, x, x, x],

# %% fused_swiglu of="right_by_shapes"
"""Wrong: a kernel that computes the gate's SiLU again, which this layer does not have."""

# -        [wide, wide, wide, wide],
# +        [wide, wide, wide],

# %% only_before_and_after of="right_by_shapes"
"""Wrong: counts an MLP with GELU, before and after."""

# -        [wide, wide, wide, wide],
# +        [wide, wide],

# %% numbers_not_bytes of="right_by_shapes"
"""Wrong: counts numbers."""

# -    return tuple(sum(prod(shape) * each for shape, each in part) for part in parts)
# +    return tuple(sum(prod(shape) for shape, each in part) for part in parts)

# %% one_sequence of="right_by_shapes"
"""Wrong: forgets the sequences of a microbatch."""

#  def modern_layer_bytes(s, b, h, a, k, d, f):
# +    b = 1

# %% right_with_empty_tensors
"""Different: the bytes of empty tensors on the meta device."""

import torch


def modern_layer_bytes(s, b, h, a, k, d, f):
    def empty(*shape, each=torch.bfloat16):
        return torch.empty(*shape, dtype=each, device="meta").nbytes

    norms = 2 * (empty(b, s, h) + empty(b, s, each=torch.float32))
    heads = 2 * empty(b, s, a * d) + 2 * empty(b, s, k * d) + empty(b, a, s, each=torch.float32)
    return [norms, 2 * empty(b, s, h), heads, 4 * empty(b, s, f)]


# %% norms_without_their_inputs of="right_with_empty_tensors"
"""Wrong: thinks that a norm's backward needs only its output."""

# -    norms = 2 * (empty(b, s, h) + empty(b, s, each=torch.float32))
# +    norms = 2 * empty(b, s, each=torch.float32)
