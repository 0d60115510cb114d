# %% right_by_parts
"""Different: matrices one by one."""


def layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node):
    weights = 4 * hidden * hidden + 2 * 4 * hidden * hidden
    forward = 2 * weights * sequence + 2 * 2 * sequence * sequence * hidden
    payload = 2 * sequence * hidden
    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
    messages = sum(2 * (num_ranks - 1) * payload / num_ranks / slowest for _ in range(4))
    return (forward + 2 * forward) / (num_ranks * flops), messages


# %% always_nvlink of="right_by_parts"
"""Wrong: every link is NVLink."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = inside

# %% always_the_network of="right_by_parts"
"""Wrong: every link leaves the node."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = min(per_node * between, inside)

# %% forward_alone of="right_by_parts"
"""Wrong: computes the forward only."""

# -    return (forward + 2 * forward) / (num_ranks * flops), messages
# +    return forward / (num_ranks * flops), messages

# %% two_all_reduces of="right_by_parts"
"""Wrong: two all-reduces, those of the forward."""

# -    messages = sum(2 * (num_ranks - 1) * payload / num_ranks / slowest for _ in range(4))
# +    messages = sum(2 * (num_ranks - 1) * payload / num_ranks / slowest for _ in range(2))

# %% eight_in_a_node of="right_by_parts"
"""Wrong: takes every node for one of eight."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = min(8 * between, inside) if num_ranks > 8 else inside

# %% one_ring of="right_by_parts"
"""Wrong: one ring through one card: twice the GPUs look slower."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = between if num_ranks > per_node else inside

# %% cards_of_all_nodes of="right_by_parts"
"""Wrong: adds up the cards of every node."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = min(num_ranks * between, inside) if num_ranks > per_node else inside

# %% faster_than_nvlink of="right_by_parts"
"""Wrong: forgets that every ring also runs over NVLink."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = per_node * between if num_ranks > per_node else inside

# %% from_the_full_node_on of="right_by_parts"
"""Wrong: a full node already counts as two."""

# -    slowest = min(per_node * between, inside) if num_ranks > per_node else inside
# +    slowest = min(per_node * between, inside) if num_ranks >= per_node else inside

# %% swapped of="right_by_parts"
"""Wrong: messages first."""

# -    return (forward + 2 * forward) / (num_ranks * flops), messages
# +    return messages, (forward + 2 * forward) / (num_ranks * flops)

# %% float32 of="right_by_parts"
"""Wrong: four bytes per number."""

# -    payload = 2 * sequence * hidden
# +    payload = 4 * sequence * hidden

# %% right_short
"""Different: both as one expression."""


def layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node):
    link = {True: inside, False: sorted([inside, per_node * between])[0]}[num_ranks <= per_node]
    return [
        12 * sequence * hidden * (6 * hidden + sequence) / flops / num_ranks,
        16 * sequence * hidden * (1 - 1 / num_ranks) / link,
    ]


# %% nothing_split of="right_short"
"""Wrong: every rank computes everything."""

# -        12 * sequence * hidden * (6 * hidden + sequence) / flops / num_ranks,
# +        12 * sequence * hidden * (6 * hidden + sequence) / flops,

# %% no_attention_core of="right_short"
"""Wrong: forgets the products of queries and keys."""

# -        12 * sequence * hidden * (6 * hidden + sequence) / flops / num_ranks,
# +        12 * sequence * hidden * 6 * hidden / flops / num_ranks,

# %% splits_the_messages of="right_short"
"""Wrong: messages shrink with the ranks."""

# -        16 * sequence * hidden * (1 - 1 / num_ranks) / link,
# +        16 * sequence * hidden * (1 - 1 / num_ranks) / num_ranks / link,
