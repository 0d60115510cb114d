"""Different: matrices one by one."""


def layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node):
    weights = 4 * hidden * hidden + 2 * 4 * hidden * hidden
    forward = 2 * weights * sequence + 2 * 2 * sequence * sequence * hidden
    payload = 2 * sequence * hidden
    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
    messages = sum(2 * (num_ranks - 1) * payload / num_ranks / slowest for _ in range(4))
    return (forward + 2 * forward) / (num_ranks * flops), messages
