"""Different: all, less the experts that sleep, as floats."""


def parameters(layers, dense_layers, hidden, attention, ffn, expert_ffn, experts, k, shared, vocab):
    expert = 3.0 * hidden * expert_ffn
    moe = layers - dense_layers
    total = hidden * (2 * vocab + 3 * dense_layers * ffn + moe * experts) + layers * attention
    total += moe * (experts + shared) * expert
    return [total, total - moe * (experts - k) * expert]
