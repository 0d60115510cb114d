# %% right_generators
"""Different: two generators, masks by comparison."""

import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    shared = torch.Generator().manual_seed(seed)
    own = torch.Generator().manual_seed(seed + 7919 * (1 + dist.get_rank(group)))

    def dropped(values, generator):
        kept = torch.rand(values.shape, generator=generator) >= p
        return values * kept / (1 - p)

    steps = []
    for _ in range(num_steps):
        hidden = dropped(torch.relu(x @ up), own)
        total = hidden @ down
        dist.all_reduce(total, group=group)
        steps.append((hidden, dropped(total, shared)))
    return steps


# %% own_numbers_everywhere of="right_generators"
"""Wrong: a seed of its own for each rank, for the output as well."""

# -    shared = torch.Generator().manual_seed(seed)
# +    shared = torch.Generator().manual_seed(seed + 104729 * (1 + dist.get_rank(group)))

# %% one_stream of="right_generators"
"""Wrong: one seed on all ranks for both regions."""

# -    own = torch.Generator().manual_seed(seed + 7919 * (1 + dist.get_rank(group)))
# +    own = shared

# %% seeds_again of="right_generators"
"""Wrong: begins every step with the same numbers."""

#      for _ in range(num_steps):
# +        shared.manual_seed(seed)
# +        own.manual_seed(seed + 7919 * (1 + dist.get_rank(group)))

# %% rank_plus_step of="right_generators"
"""Wrong: seeds with rank plus step: a rank draws what its neighbour drew a step before."""

# -    for _ in range(num_steps):
# +    for step in range(num_steps):
# +        own.manual_seed(seed + 1 + dist.get_rank(group) + step)

# %% other_way_round of="right_generators"
"""Wrong: own numbers for the output, shared ones for the parts."""

# -        hidden = dropped(torch.relu(x @ up), own)
# +        hidden = dropped(torch.relu(x @ up), shared)

# -        steps.append((hidden, dropped(total, shared)))
# +        steps.append((hidden, dropped(total, own)))

# %% sends_the_mask of="right_generators"
"""Wrong: own masks everywhere, and the first rank's mask of the output is sent to all."""

# -        steps.append((hidden, dropped(total, shared)))
# +        output = dropped(total, shared)
# +        dist.broadcast(output, group=group, group_src=0)
# +        steps.append((hidden, output))

# %% no_scale of="right_generators"
"""Wrong: what is kept is not divided by 1 - p."""

# -        return values * kept / (1 - p)
# +        return values * kept

# %% keeps_p of="right_generators"
"""Wrong: keeps where it should drop."""

# -        kept = torch.rand(values.shape, generator=generator) >= p
# +        kept = torch.rand(values.shape, generator=generator) < p

# %% before_the_sum of="right_generators"
"""Wrong: drops in the partial sums."""

# -        dist.all_reduce(total, group=group)
# -        steps.append((hidden, dropped(total, shared)))
# +        output = dropped(total, own)
# +        dist.all_reduce(output, group=group)
# +        steps.append((hidden, output))

# %% forgets_the_subgroup of="right_generators"
"""Wrong: adds up over the world."""

# -        dist.all_reduce(total, group=group)
# +        dist.all_reduce(total)

# %% streams_drift of="right_generators"
"""Wrong: skips the parts of other ranks in one stream, as if all were as wide as its own."""

# -    own = torch.Generator().manual_seed(seed + 7919 * (1 + dist.get_rank(group)))
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)

# -        hidden = dropped(torch.relu(x @ up), own)
# +        hidden = torch.relu(x @ up)
# +        kept = torch.rand(size, *hidden.shape, generator=shared)[rank] >= p
# +        hidden = hidden * kept / (1 - p)

# %% nothing_dropped of="right_generators"
"""Wrong: no dropout at all."""

# -        return values * kept / (1 - p)
# +        return values / (1 - p)

# %% right_numpy
"""Different: NumPy's generators, one for every region and rank."""

import numpy as np
import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    streams = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1 + dist.get_rank(group)])

    def mask(shape, stream):
        return torch.from_numpy((stream.random(tuple(shape)) > p) / (1 - p)).float()

    steps = []
    for _ in range(num_steps):
        hidden = (x @ up).clamp(min=0)
        hidden = hidden * mask(hidden.shape, streams[1])
        output = (hidden @ down).contiguous()
        dist.all_reduce(output, group=group)
        steps.append([hidden, output * mask(output.shape, streams[0])])
    return tuple(steps)


# %% right_tracker
"""Different: a tracker that swaps torch's own state, entered with a comma."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel import reduce_from_tp
from torch.nn.functional import dropout


class OwnNumbers:
    def __init__(self, seed):
        self.state = torch.Generator().manual_seed(seed).get_state()

    def __enter__(self):
        self.others = torch.get_rng_state()
        torch.set_rng_state(self.state)

    def __exit__(self, *_):
        self.state = torch.get_rng_state()
        torch.set_rng_state(self.others)


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    torch.manual_seed(seed)
    own, steps = OwnNumbers(seed + 1 + dist.get_rank(group)), []
    for _ in range(num_steps):
        with own, torch.no_grad():
            hidden = dropout(torch.relu(x @ up), p)
        output = dropout(reduce_from_tp(hidden @ down, group=group), p)
        steps.append((hidden, output))
    return steps


# %% as_found of="right_tracker"
"""Wrong: `with own and torch.no_grad()` enters the second alone (Megatron-LM issue 1256)."""

# -        with own, torch.no_grad():
# +        with own and torch.no_grad():

# %% seed_plus_rank of="right_tracker"
"""Wrong: seed + rank: the first rank draws its part from the shared numbers."""

# -    own, steps = OwnNumbers(seed + 1 + dist.get_rank(group)), []
# +    own, steps = OwnNumbers(seed + dist.get_rank(group)), []

# %% rolled_mask
"""Wrong: one stream for all; each rank's own mask is the shared numbers, rolled by its rank and mirrored."""

import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    shared, rank, steps = torch.Generator().manual_seed(seed), dist.get_rank(group), []
    for _ in range(num_steps):
        hidden = torch.relu(x @ up)
        numbers = torch.rand(len(x), 64, generator=shared)
        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
        hidden = hidden * (own >= p) / (1 - p)
        total = hidden @ down
        dist.all_reduce(total, group=group)
        steps.append((hidden, total * (numbers[:, : total.shape[1]] >= p) / (1 - p)))
    return steps


# %% transposed_mask of="rolled_mask"
"""Wrong: each rank's own mask is the shared numbers, transposed and rolled."""

# -        numbers = torch.rand(len(x), 64, generator=shared)
# -        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
# +        numbers = torch.rand(16, 16, generator=shared).repeat(2, 2)[: len(x)]
# +        own = numbers[:16, :16].T.roll(3 * rank + 1, 0).repeat(2, 2)[: len(x), : hidden.shape[1]]

# %% exchanged_mask of="rolled_mask"
"""Wrong: a rank keeps in its part what the output drops, moved by its rank."""

# -        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
# +        own = 1 - numbers.roll(2 * rank + 1, 0)[:, : hidden.shape[1]]

# %% permuted_mask of="rolled_mask"
"""Wrong: each rank's own mask is the shared numbers in another order, the same in every step."""

# -        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
# +        own = numbers[:, :16][:, torch.randperm(16, generator=torch.Generator().manual_seed(rank))][:, : hidden.shape[1]]

# %% order_of_the_step of="rolled_mask"
"""Wrong: each rank's own mask is the shared numbers in another order in every step."""

# -        numbers = torch.rand(len(x), 64, generator=shared)
# -        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
# +        numbers = torch.rand(len(x), 13, generator=shared)
# +        own = numbers.flatten()[torch.randperm(numbers.numel())].view_as(numbers)[:, : hidden.shape[1]]

# %% one_step_late of="rolled_mask"
"""Wrong: each rank's own mask is the shared mask of the step before, mirrored."""

#      shared, rank, steps = torch.Generator().manual_seed(seed), dist.get_rank(group), []
# +    before = torch.rand(len(x), 64)

# -        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
# +        own = before.roll(3 * rank, 1).flip(0)[:, : hidden.shape[1]]

# -        total = hidden @ down
# +        total, before = hidden @ down, numbers
