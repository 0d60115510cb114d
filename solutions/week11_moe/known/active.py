# %% right_by_difference
"""Different: all, less the experts that sleep, as floats."""


def parameters(layers, dense_layers, hidden, attention, ffn, expert_ffn, experts, k, shared, vocab):
    expert = 3.0 * hidden * expert_ffn
    moe = layers - dense_layers
    total = hidden * (2 * vocab + 3 * dense_layers * ffn + moe * experts) + layers * attention
    total += moe * (experts + shared) * expert
    return [total, total - moe * (experts - k) * expert]


# %% no_router of="right_by_difference"
"""Wrong: forgets the router."""

# -    total = hidden * (2 * vocab + 3 * dense_layers * ffn + moe * experts) + layers * attention
# +    total = hidden * (2 * vocab + 3 * dense_layers * ffn) + layers * attention

# %% two_matrices of="right_by_difference"
"""Wrong: experts without a gate."""

# -    expert = 3.0 * hidden * expert_ffn
# +    expert = 2.0 * hidden * expert_ffn

# %% shared_forgotten of="right_by_difference"
"""Wrong: no shared expert."""

# -    total += moe * (experts + shared) * expert
# +    total += moe * experts * expert

# %% dense_beside_experts of="right_by_difference"
"""Wrong: dense MLPs beside the experts."""

# -    total = hidden * (2 * vocab + 3 * dense_layers * ffn + moe * experts) + layers * attention
# +    total = hidden * (2 * vocab + 3 * layers * ffn + moe * experts) + layers * attention

# %% share_of_all of="right_by_difference"
"""Wrong: k/E of everything."""

# -    return [total, total - moe * (experts - k) * expert]
# +    return [total, total * k / experts]

# %% times_the_name of="right_by_difference"
"""Wrong: experts times a whole model, as the name 8x7B says."""

# -    return [total, total - moe * (experts - k) * expert]
# +    return [experts * (total - moe * (experts - 1) * expert), total - moe * (experts - k) * expert]

# %% right_by_layer
"""Different: layer by layer."""


def parameters(layers, dense_layers, hidden, attention, ffn, expert_ffn, experts, k, shared, vocab):
    total = active = 2 * vocab * hidden
    for layer in range(layers):
        if layer < dense_layers:
            total, active = (one + attention + 3 * hidden * ffn for one in (total, active))
        else:
            total += attention + hidden * experts + 3 * hidden * expert_ffn * (experts + shared)
            active += attention + hidden * experts + 3 * hidden * expert_ffn * (k + shared)
    return total, active


# %% router_by_k of="right_by_layer"
"""Wrong: of the router only the rows of chosen experts."""

# -            active += attention + hidden * experts + 3 * hidden * expert_ffn * (k + shared)
# +            active += attention + hidden * k + 3 * hidden * expert_ffn * (k + shared)

# %% shared_not_active of="right_by_layer"
"""Wrong: a token does not visit the shared expert."""

# -            active += attention + hidden * experts + 3 * hidden * expert_ffn * (k + shared)
# +            active += attention + hidden * experts + 3 * hidden * expert_ffn * k

# %% shared_for_a_choice of="right_by_layer"
"""Wrong: the shared expert is one of the k."""

# -            active += attention + hidden * experts + 3 * hidden * expert_ffn * (k + shared)
# +            active += attention + hidden * experts + 3 * hidden * expert_ffn * max(k, shared)

# %% one_embedding of="right_by_layer"
"""Wrong: the output layer is the embedding."""

# -    total = active = 2 * vocab * hidden
# +    total = active = vocab * hidden

# %% every_layer_has_experts of="right_by_layer"
"""Wrong: no dense layers."""

# -        if layer < dense_layers:
# +        if False:

# %% attention_by_share of="right_by_layer"
"""Wrong: attention, too, is active by k/E."""

# -            active += attention + hidden * experts + 3 * hidden * expert_ffn * (k + shared)
# +            active += attention * k / experts + hidden * experts + 3 * hidden * expert_ffn * (k + shared)

# %% swapped of="right_by_layer"
"""Wrong: active first."""

# -    return total, active
# +    return active, total
