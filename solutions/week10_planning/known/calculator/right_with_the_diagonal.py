"""Different: a causal mask leaves (s + 1) / 2 of the scores."""


def calculate(n):
    L, h, s, b, tp = (n[k] for k in ("layers", "hidden", "sequence", "microbatch", "tp"))
    return dict(
        parameters=L * (2 * h * h * (1 + n["kv_heads"] / n["heads"]) + 3 * h * n["ffn"] + 2 * h)
        + 2 * n["vocab"] * h
        + h,
        state_bytes=n["parameters_on_rank"] * (6 + 12 / n["dp"]),
        activation_bytes=34 * s * b * h / tp,
        all_reduce_bytes=4 * (1 - 1 / tp) * s * b * h,
        attention_flops=2 * L * (s + 1) * h,
        bubble=(n["pp"] - 1) / (n["microbatches"] + n["pp"] - 1),
    )
