# %% right_rounded
"""Different: a tuple of rounded numbers."""


def on_4096_gpus():
    return 8192, 31 * 4 * 8192 * 128, 16, 989e12 / 50e9 / 8, 0.574


# %% right_step_by_step
"""Different: every number from the sizes, step by step."""


def on_4096_gpus():
    s, h, ffn, heads, kv_heads, tp, pp = 2**18, 16384, 53248, 128, 8, 8, 16
    cp = 4096 // tp // pp
    width, tokens = h // heads, s // cp
    ring = (cp - 1) * 2 * 2 * tokens * kv_heads // tp * width
    flops_per_byte = 989.5e12 / 50e9
    weights = 2 * h * h + 2 * h * kv_heads * width + 3 * h * ffn
    core = 2 * s * h
    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]


# %% pipeline_forgotten of="right_step_by_step"
"""Wrong: all but tensor parallelism is cp."""

# -    cp = 4096 // tp // pp
# +    cp = 4096 // tp

# %% keys_not_split of="right_step_by_step"
"""Wrong: all key heads on each tensor-parallel rank."""

# -    ring = (cp - 1) * 2 * 2 * tokens * kv_heads // tp * width
# +    ring = (cp - 1) * 2 * 2 * tokens * kv_heads * width

# %% keys_alone of="right_step_by_step"
"""Wrong: forgets the values."""

# -    ring = (cp - 1) * 2 * 2 * tokens * kv_heads // tp * width
# +    ring = (cp - 1) * 2 * tokens * kv_heads // tp * width

# %% heads_not_split of="right_step_by_step"
"""Wrong: forgets that tensor parallelism has split the heads."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, heads, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]

# %% key_heads_limit of="right_step_by_step"
"""Wrong: as many as there are key heads."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, kv_heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]

# %% not_causal of="right_step_by_step"
"""Wrong: a step without its mask: twice the work."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, heads // tp, kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]

# %% every_head_its_keys of="right_step_by_step"
"""Wrong: as if each head had keys of its own."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, heads // tp, 2 * flops_per_byte, core / (core + 2 * weights)]

# %% nvlink of="right_step_by_step"
"""Wrong: the speed inside of a node."""

# -    flops_per_byte = 989.5e12 / 50e9
# +    flops_per_byte = 989.5e12 / 450e9

# %% core_not_causal of="right_step_by_step"
"""Wrong: the core without its mask."""

# -    core = 2 * s * h
# +    core = 4 * s * h

# %% one_flop_per_weight of="right_step_by_step"
"""Wrong: one FLOP for a weight."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + weights)]

# %% share_of_the_matrices of="right_step_by_step"
"""Wrong: the core's share of the matrices, not of both."""

# -    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (core + 2 * weights)]
# +    return [tokens, ring, heads // tp, 2 * kv_heads / heads * flops_per_byte, core / (2 * weights)]

# %% two_matrices of="right_step_by_step"
"""Wrong: an MLP of two matrices."""

# -    weights = 2 * h * h + 2 * h * kv_heads * width + 3 * h * ffn
# +    weights = 2 * h * h + 2 * h * kv_heads * width + 2 * h * ffn
