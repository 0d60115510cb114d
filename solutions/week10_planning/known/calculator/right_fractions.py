"""Different: whole numbers and fractions as long as it goes, one dict comprehension at the end."""

from fractions import Fraction as F


def calculate(n):
    h, tp = n["hidden"], n["tp"]
    tensor = n["sequence"] * n["microbatch"] * h
    heads = n["heads"] + n["kv_heads"]  # queries and output; keys and values
    matrices = F(2 * h * h * heads, n["heads"]) + 3 * h * n["ffn"]
    lines = [
        ("bubble", 1 / (1 + F(n["microbatches"], n["pp"] - 1)) if n["pp"] > 1 else 0),
        ("attention_flops", 2 * n["sequence"] * h * n["layers"]),
        ("all_reduce_bytes", F(4 * tensor * (tp - 1), tp)),
        ("activation_bytes", F(34 * tensor, tp)),
        ("state_bytes", n["parameters_on_rank"] * (6 + F(12, n["dp"]))),
        ("parameters", n["layers"] * (matrices + 2 * h) + (2 * n["vocab"] + 1) * h),
    ]
    return {name: float(value) for name, value in lines}
