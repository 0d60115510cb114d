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
