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
