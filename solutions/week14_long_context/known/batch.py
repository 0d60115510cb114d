# %% right_as_taught
"""Different: an index of positions, one list of all that is cut."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def zig_zag(length, rank, size):
    if length % (2 * size):
        raise ValueError(f"{length} positions over {size} ranks: use a multiple of {2 * size}")
    chunks = torch.arange(length).chunk(2 * size)
    return torch.cat([chunks[rank], chunks[-1 - rank]])


def my_part(tokens, targets, *, group):
    positions = zig_zag(tokens.shape[1], dist.get_rank(group), dist.get_world_size(group))
    labels = torch.full_like(tokens, -100)
    labels[:, :-1] = targets[:, 1:]
    return tokens[:, positions], labels[:, positions], positions


def loss_share(losses, labels, *, group):
    count = (labels != -100).sum()
    dist.all_reduce(count, group=group)
    return losses.sum() / count


def batch_step(tokens, targets, table, places, *, group):
    inputs, labels, positions = my_part(tokens, targets, group=group)
    weights = [one.clone().requires_grad_() for one in (table, places)]
    logits = weights[0][inputs] + weights[1][positions]
    losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
    share = loss_share(losses, labels.flatten(), group=group)
    found = [share.detach().clone(), *torch.autograd.grad(share, weights)]
    for one in found:
        dist.all_reduce(one, group=group)
    return positions, labels, *found


# %% labels_shifted_after_the_split of="right_as_taught"
"""Wrong: shifts the labels of its own two chunks: wrong at the seams."""

# -    labels = torch.full_like(tokens, -100)
# -    labels[:, :-1] = targets[:, 1:]
# -    return tokens[:, positions], labels[:, positions], positions
# +    inputs = tokens[:, positions]
# +    labels = torch.full_like(inputs, -100)
# +    labels[:, :-1] = targets[:, positions][:, 1:]
# +    return inputs, labels, positions

# %% mean_of_means of="right_as_taught"
"""Wrong: each rank takes the mean over its own scored tokens, and the ranks' means are averaged."""

# -    dist.all_reduce(count, group=group)
# -    return losses.sum() / count
# +    return losses.sum() / count.clamp(min=1) / dist.get_world_size(group)

# %% sum_of_means of="right_as_taught"
"""Wrong: each rank takes the mean over its own scored tokens, and the ranks' means are added."""

# -    dist.all_reduce(count, group=group)
# +    count = count.clamp(min=1)

# %% mean_of_means_with_nan of="right_as_taught"
"""Wrong: a mean over no token at all."""

# -    dist.all_reduce(count, group=group)
# -    return losses.sum() / count
# +    return losses.sum() / count / dist.get_world_size(group)

# %% divides_by_all_tokens of="right_as_taught"
"""Wrong: divides by all positions, scored or not."""

# -    count = (labels != -100).sum()
# +    count = torch.tensor(labels.numel())

# %% averages_the_gradients of="right_as_taught"
"""Wrong: averages what is added up: a c-th of everything."""

#          dist.all_reduce(one, group=group)
# +        one /= dist.get_world_size(group)

# %% zig_zag_without_positions of="right_as_taught"
"""Wrong: counts its tokens from 0."""

# -    logits = weights[0][inputs] + weights[1][positions]
# +    logits = weights[0][inputs] + weights[1][: len(positions)]

# %% positions_from_zero of="right_as_taught"
"""Wrong: says that its positions begin at 0."""

# -    return tokens[:, positions], labels[:, positions], positions
# +    return tokens[:, positions], labels[:, positions], torch.arange(len(positions))

# %% contiguous of="right_as_taught"
"""Wrong: one piece for each rank."""

# -    return torch.cat([chunks[rank], chunks[-1 - rank]])
# +    return torch.arange(length).chunk(size)[rank]

# %% striped of="right_as_taught"
"""Wrong: every c-th position."""

# -    return torch.cat([chunks[rank], chunks[-1 - rank]])
# +    return torch.arange(length)[rank::size]

# %% off_by_one_chunk of="right_as_taught"
"""Wrong: the second chunk is one too far to the front."""

# -    return torch.cat([chunks[rank], chunks[-1 - rank]])
# +    return torch.cat([chunks[rank], chunks[(2 * size - 2 - rank) % (2 * size)]])

# %% no_shift of="right_as_taught"
"""Wrong: each token is its own label."""

# -    labels[:, :-1] = targets[:, 1:]
# +    labels[:] = targets

# %% shifted_twice of="right_as_taught"
"""Wrong: shifts by two."""

# -    labels[:, :-1] = targets[:, 1:]
# +    labels[:, :-2] = targets[:, 2:]

# %% rolled of="right_as_taught"
"""Wrong: the first token is the last one's label."""

# -    labels = torch.full_like(tokens, -100)
# -    labels[:, :-1] = targets[:, 1:]
# +    labels = targets.roll(-1, 1)

# %% everything_scored of="right_as_taught"
"""Wrong: scores every token."""

# -    labels[:, :-1] = targets[:, 1:]
# +    labels[:, :-1] = tokens[:, 1:]

# %% own_gradients of="right_as_taught"
"""Wrong: keeps the gradients of its own tokens."""

# -    for one in found:
# +    for one in found[:1]:

# %% counts_the_world of="right_as_taught"
"""Wrong: counts in the whole world, of which a part never calls."""

# -    dist.all_reduce(count, group=group)
# +    dist.all_reduce(count)

# %% global_rank of="right_as_taught"
"""Wrong: cuts by the rank in the world."""

# -    positions = zig_zag(tokens.shape[1], dist.get_rank(group), dist.get_world_size(group))
# +    positions = zig_zag(tokens.shape[1], dist.get_rank() % dist.get_world_size(group), dist.get_world_size(group))

# %% every_rank_all of="right_as_taught"
"""Wrong: every rank works on everything, and sends nothing."""

# -    inputs, labels, positions = my_part(tokens, targets, group=group)
# +    _, mine, places_of_mine = my_part(tokens, targets, group=group)
# +    labels = torch.full_like(tokens, -100)
# +    labels[:, :-1] = targets[:, 1:]
# +    inputs, positions = tokens, torch.arange(tokens.shape[1])

# %% gathers_the_losses of="right_as_taught"
"""Wrong: gathers every token's loss to count them."""

#      count = (labels != -100).sum()
# +    everything = [torch.empty_like(losses) for _ in range(dist.get_world_size(group))]
# +    dist.all_gather(everything, losses.detach(), group=group)

# %% drops_the_rest of="right_as_taught"
"""Wrong: leaves out the tokens that do not divide."""

# -    if length % (2 * size):
# -        raise ValueError(f"{length} positions over {size} ranks: use a multiple of {2 * size}")
# -    chunks = torch.arange(length).chunk(2 * size)
# +
# +    chunks = torch.arange(length // (2 * size) * 2 * size).chunk(2 * size)

# %% divides_by_c_alone of="right_as_taught"
"""Wrong: asks for a multiple of c: two uneven chunks."""

# -    if length % (2 * size):
# +    if length % size:

# %% asserts of="right_as_taught"
"""Wrong: an assertion without a word."""

# -        raise ValueError(f"{length} positions over {size} ranks: use a multiple of {2 * size}")
# +        raise AssertionError

# %% changes_its_input of="right_as_taught"
"""Wrong: writes -100 into the caller's tokens."""

#      labels[:, :-1] = targets[:, 1:]
# +    tokens[:, 0] = (tokens[:, 0] + 1) % 11
# +    tokens = torch.cat([(tokens[:, :1] - 1) % 11, tokens[:, 1:]], 1)

# %% right_by_hand
"""Different: loops over positions, softmax by hand, sums first and one division at the end."""

import torch
import torch.distributed as dist


def batch_step(tokens, targets, table, places, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    length = tokens.size(1)
    width, rest = divmod(length, 2 * size)
    if rest:
        raise ValueError(f"a length of {length} leaves {rest} over with {2 * size} chunks")
    mine = [*range(rank * width, (rank + 1) * width)]
    mine += range((2 * size - 1 - rank) * width, (2 * size - rank) * width)
    labels = torch.tensor([[row[at + 1] if at + 1 < length else -100 for at in mine] for row in targets.tolist()])
    positions = torch.tensor(mine)
    probabilities = (table[tokens[:, mine]] + places[positions]).softmax(-1)
    counts = labels >= 0
    known = labels.clamp(min=0).unsqueeze(-1)
    losses = -probabilities.gather(-1, known).squeeze(-1).log() * counts
    slopes = (probabilities - torch.zeros_like(probabilities).scatter_(-1, known, 1.0)) * counts.unsqueeze(-1)
    of_table = torch.zeros_like(table).index_add_(0, tokens[:, mine].flatten(), slopes.flatten(0, 1))
    of_places = torch.zeros_like(places).index_add_(0, positions, slopes.sum(0))
    both = torch.stack([losses.sum(), counts.sum().float()])
    sums = torch.cat([both, of_table.flatten(), of_places.flatten()])
    dist.all_reduce(sums, group=group)
    sums[2:] /= sums[1]
    table_sum, places_sum = sums[2:].split([table.numel(), places.numel()])
    return positions, labels, sums[0] / sums[1], table_sum.view_as(table), places_sum.view_as(places)
