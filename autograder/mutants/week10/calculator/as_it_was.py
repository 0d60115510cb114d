"""Wrong: the calculator as it was found."""


def calculate(n):
    layers, h, s, b, tp = n["layers"], n["hidden"], n["sequence"], n["microbatch"], n["tp"]
    return {
        "parameters": layers * (4 * h * h + 3 * h * n["ffn"] + 2 * h) + n["vocab"] * h + h,
        "state_bytes": n["parameters_on_rank"] * (2 + 2 + 12 / n["dp"]),
        "activation_bytes": s * b * h / tp * (34 + 5 * n["heads"] * s / h),
        "all_reduce_bytes": 2 * s * b * h,
        "attention_flops": layers * 4 * s * h,
        "bubble": (n["pp"] - 1) / (n["microbatches"] + n["pp"] - 1),
    }
