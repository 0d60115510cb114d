"""Different: both as one expression."""


def layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node):
    link = {True: inside, False: sorted([inside, per_node * between])[0]}[num_ranks <= per_node]
    return [
        12 * sequence * hidden * (6 * hidden + sequence) / flops / num_ranks,
        16 * sequence * hidden * (1 - 1 / num_ranks) / link,
    ]
