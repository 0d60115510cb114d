# %% right_by_parts
"""Different: a reduce-scatter and an all-gather, added up."""


def tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary):
    share = (num_ranks - 1) / num_ranks

    def all_reduce(num_bytes):
        return share * num_bytes + share * num_bytes

    activation = batch * sequence * hidden * 2
    layer = sum(all_reduce(activation) for _ in range(4))
    three = sum(all_reduce(4 * batch * sequence) for _ in range(3))
    return [layer, three, share * batch * sequence * vocabulary * 2]


# %% forward_alone of="right_by_parts"
"""Wrong: two all-reduces in a layer."""

# -    layer = sum(all_reduce(activation) for _ in range(4))
# +    layer = sum(all_reduce(activation) for _ in range(2))

# %% one_each_way of="right_by_parts"
"""Wrong: one all-reduce for attention and MLP together, forward and backward."""

# -    layer = sum(all_reduce(activation) for _ in range(4))
# +    layer = 2 * all_reduce(activation)

# %% counts_the_payload of="right_by_parts"
"""Wrong: the payload for what a rank sends."""

# -        return share * num_bytes + share * num_bytes
# +        return num_bytes

# %% gathers_by_all_reduce of="right_by_parts"
"""Wrong: counts an all-gather as an all-reduce."""

# -    return [layer, three, share * batch * sequence * vocabulary * 2]
# +    return [layer, three, all_reduce(batch * sequence * vocabulary * 2)]

# %% two_numbers of="right_by_parts"
"""Wrong: forgets the maximum."""

# -    three = sum(all_reduce(4 * batch * sequence) for _ in range(3))
# +    three = sum(all_reduce(4 * batch * sequence) for _ in range(2))

# %% eight_ranks of="right_by_parts"
"""Wrong: right for eight ranks."""

# -    share = (num_ranks - 1) / num_ranks
# +    share = 7 / 8

# %% split_activation of="right_by_parts"
"""Wrong: takes the activation for split."""

# -    activation = batch * sequence * hidden * 2
# +    activation = batch * sequence * hidden * 2 / num_ranks

# %% right_tensor
"""Different: whole numbers, and a tensor of three."""

import torch


def tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary):
    tokens = batch * sequence
    sizes = torch.tensor([16 * hidden, 24, 2 * vocabulary], dtype=torch.float64)
    return sizes * tokens * (num_ranks - 1) / num_ranks


# %% forgets_the_batch of="right_tensor"
"""Wrong: one sequence only."""

# -    tokens = batch * sequence
# +    tokens = sequence

# %% the_loss_in_bf16 of="right_tensor"
"""Wrong: two bytes for the loss's numbers as well."""

# -    sizes = torch.tensor([16 * hidden, 24, 2 * vocabulary], dtype=torch.float64)
# +    sizes = torch.tensor([16 * hidden, 12, 2 * vocabulary], dtype=torch.float64)

# %% logits_in_float32 of="right_tensor"
"""Wrong: four bytes a logit."""

# -    sizes = torch.tensor([16 * hidden, 24, 2 * vocabulary], dtype=torch.float64)
# +    sizes = torch.tensor([16 * hidden, 24, 4 * vocabulary], dtype=torch.float64)
