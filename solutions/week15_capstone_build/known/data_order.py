# %% right_as_taught from="page"
"""Different: a string of seed and epoch seeds Python's generator."""

from random import Random

# %% by_replica of="right_as_taught"
"""Wrong: each replica shuffles with its own seed, so replicas overlap."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(f"{seed}/{epoch}/{replica}").shuffle(order)

# %% by_mesh of="right_as_taught"
"""Wrong: the order depends on dp."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(f"{seed}/{epoch}/{dp}").shuffle(order)

# %% seed_plus_epoch of="right_as_taught"
"""Wrong: seed + epoch: the second epoch of seed 7 is the first of seed 8."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(seed + epoch).shuffle(order)

# %% one_order of="right_as_taught"
"""Wrong: every epoch in one order."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(f"{seed}").shuffle(order)

# %% no_seed of="right_as_taught"
"""Wrong: the seed is ignored."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(f"{epoch}").shuffle(order)

# %% not_shuffled of="right_as_taught"
"""Wrong: in the order of the file."""

# -        Random(f"{seed}/{epoch}").shuffle(order)
# +        Random(f"{seed}/{epoch}")

# %% interleaved of="right_as_taught"
"""Wrong: replica r takes every dp-th sequence: the same set, in another order."""

# -    first = step * batch + replica * (batch // dp)
# -    return [place(number) for number in range(first, first + batch // dp)]
# +    first = step * batch + replica
# +    return [place(number) for number in range(first, step * batch + batch, dp)]

# %% replicas_alike of="right_as_taught"
"""Wrong: every replica reads the first part."""

# -    first = step * batch + replica * (batch // dp)
# +    first = step * batch

# %% whole_batch of="right_as_taught"
"""Wrong: every replica reads the whole batch."""

# -    first = step * batch + replica * (batch // dp)
# -    return [place(number) for number in range(first, first + batch // dp)]
# +    first = step * batch
# +    return [place(number) for number in range(first, first + batch)]

# %% steps_of_replica of="right_as_taught"
"""Wrong: counts steps in replica batches, so that other dp read other data."""

# -    first = step * batch + replica * (batch // dp)
# +    first = step * (batch // dp) + replica * (batch // dp)

# %% drops_the_rest of="right_as_taught"
"""Wrong: an epoch ends with its last whole batch: a few sequences of each are never read."""

# -        epoch, at = divmod(number, num)
# +        epoch, at = divmod(number, max(1, num // batch) * batch)
# +        at %= num

# %% with_replacement of="right_as_taught"
"""Wrong: draws with replacement."""

# -        return order[at]
# +        return Random(f"{seed}/{number}").randrange(num)

# %% right_torch
"""Different: torch's permutation, whole batch first, then the replica's part."""

import torch


def permutation(seed, epoch, num):
    generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    return torch.randperm(num, generator=generator)


def sequences(seed, step, replica, dp, batch, num):
    numbers = torch.arange(step * batch, (step + 1) * batch)
    epochs = range(int(numbers[0]) // num, int(numbers[-1]) // num + 1)
    orders = torch.cat([permutation(seed, epoch, num) for epoch in epochs])
    whole = orders[numbers - epochs[0] * num]
    return whole.view(dp, -1)[replica].tolist()


def order_of(calls):
    return [sequences(*call) for call in calls]


# %% keeps_a_generator
"""Wrong: a generator goes on from call to call, so a resumed run reads other data."""

from random import Random

generator = Random(0)


def sequences(seed, step, replica, dp, batch, num):
    return generator.sample(range(num), min(num, batch // dp)) + [0] * max(0, batch // dp - num)


def order_of(calls):
    return [sequences(*call) for call in calls]
