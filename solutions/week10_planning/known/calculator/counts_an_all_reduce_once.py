"""Wrong: the size of the tensor."""


def calculate(n):
    layers, h, s, b, tp = n["layers"], n["hidden"], n["sequence"], n["microbatch"], n["tp"]
    attention = 2 * h * h + 2 * h * h * n["kv_heads"] // n["heads"]
    return {
        "parameters": layers * (attention + 3 * h * n["ffn"] + 2 * h) + 2 * n["vocab"] * h + h,
        "state_bytes": n["parameters_on_rank"] * (2 + 4 + 12 / n["dp"]),
        "activation_bytes": 34 * s * b * h / tp,
        "all_reduce_bytes": 2 * s * b * h,
        "attention_flops": layers * 4 * s * h / 2,
        "bubble": (n["pp"] - 1) / (n["microbatches"] + n["pp"] - 1),
    }
