"""Different: one function a line, parts added up."""


def parameters(n):
    width = n["hidden"] // n["heads"]
    attention = n["hidden"] * width * (n["heads"] + 2 * n["kv_heads"]) + n["hidden"] ** 2
    mlp = sum(n["hidden"] * n["ffn"] for _ in ("gate", "up", "down"))
    norms = 2 * n["hidden"]
    embedding = output = n["vocab"] * n["hidden"]
    return n["layers"] * (attention + mlp + norms) + embedding + output + n["hidden"]


def states(n):
    mine = n["parameters_on_rank"]
    return 2 * mine + 4 * mine + 3 * 4 * mine / n["dp"]


def calculate(n):
    element = n["sequence"] * n["microbatch"] * n["hidden"]
    per_token = sum(2 * 2 * n["hidden"] * n["sequence"] / 2 for _ in range(n["layers"]))
    rounds = n["microbatches"] + n["pp"] - 1
    return dict(
        parameters=parameters(n),
        state_bytes=states(n),
        activation_bytes=element * (11 + 19 + 4) / n["tp"],
        all_reduce_bytes=sum(2 * element / n["tp"] for _ in range(2 * (n["tp"] - 1))),
        attention_flops=per_token,
        bubble=1 - n["microbatches"] / rounds,
    )
