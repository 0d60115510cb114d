# %% right_own_messages
"""Different: own messages, told apart by their order alone, and autograd.grad in place of backward."""

import re

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def loss_share(y, target, num_rows):
    return mse_loss(y, target) * len(target) / num_rows


def run_slots(schedule, forward, weights, like, *, group):
    rank, works, kept, here, losses = dist.get_rank(group), [], {}, {}, {}
    read = [[re.match(r"(\d+)(.)(\d+)", slot).groups() for slot in slots] for slots in schedule]
    home = {int(stage): owner for owner, slots in enumerate(read) for stage, _, _ in slots}
    mine, last = [(int(stage), kind, int(m)) for stage, kind, m in read[rank]], max(home)

    def send(tensor, stage, *name):
        if home[stage] == rank:
            here[name] = tensor
        else:
            works.append((tensor, dist.isend(tensor, group_dst=home[stage], group=group)))

    def receive(stage, *name):
        if home[stage] == rank:
            return here.pop(name)
        tensor = torch.empty_like(like[name[-1]])
        dist.recv(tensor, group_src=home[stage], group=group)
        return tensor

    def add(weight, found):
        weight.grad = found if weight.grad is None else weight.grad + found

    for stage, kind, m in mine:
        if kind == "F":
            x = receive(stage - 1, "F", stage, m).requires_grad_() if stage > 0 else None
            y = forward(stage, m, x)
            kept[stage, m] = x, y, None
            if stage < last:
                send(y.detach(), stage + 1, "F", stage + 1, m)
            else:
                losses[m] = y.item()
            continue
        x, y, gradient = kept.pop((stage, m))
        if kind != "W" and stage < last:
            gradient = receive(stage + 1, "B", stage, m)
        own = [] if kind == "I" else weights(stage)
        leaves = own if kind == "W" or x is None else [x, *own]
        found = torch.autograd.grad(y, leaves, gradient, retain_graph=kind == "I") if leaves else []
        for weight, one in zip(own, found[len(leaves) - len(own) :], strict=True):
            add(weight, one)
        if kind == "I":
            kept[stage, m] = x, y, gradient
        if kind != "W" and stage > 0:
            send(found[0], stage - 1, "B", stage - 1, m)
    for _, work in works:
        work.wait()
    return losses


def pipeline_step(weights, microbatches, targets, schedule, *, group):
    leaves = [None if weight is None else weight.clone().requires_grad_() for weight in weights]

    def forward(stage, m, x):
        y = torch.tanh((microbatches[m] if stage == 0 else x) @ leaves[stage])
        return loss_share(y, targets[m], sum(map(len, targets))) if stage == len(weights) - 1 else y

    losses = run_slots(schedule, forward, lambda stage: [leaves[stage]], microbatches, group=group)
    return sum(losses.values()) if losses else None, [leaf.grad for leaf in leaves if leaf is not None]


# %% right_sum_of_squares of="right_own_messages"
"""Different: a microbatch's share is its sum of squares, over all numbers of the batch."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return (y - target).square().sum() / (num_rows * y.shape[1])

# %% blocking_sends of="right_own_messages"
"""Wrong: waits in each send, and in 1F1B the neighbor does the same."""

# -            works.append((tensor, dist.isend(tensor, group_dst=home[stage], group=group)))
# +            dist.send(tensor, group_dst=home[stage], group=group)

# %% borrows_the_stages of="right_own_messages"
"""Wrong: takes the package's own executor, which is not there while this is checked."""

#  import torch.distributed as dist
# +from shardlab.pipeline_parallel.execution import execute

# -    rank, works, kept, here, losses = dist.get_rank(group), [], {}, {}, {}
# +    rank, works, kept, here, losses, _ = dist.get_rank(group), [], {}, {}, {}, execute

# %% detaches_its_input of="right_own_messages"
"""Wrong: sends back zeros, for the gradient of its input was never asked for."""

# -            send(found[0], stage - 1, "B", stage - 1, m)
# +            send(torch.zeros_like(x), stage - 1, "B", stage - 1, m)

# %% divided_by_the_ranks of="right_own_messages"
"""Wrong: divides what is backpropagated by the number of ranks instead of weighting it by rows."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return mse_loss(y, target) / dist.get_world_size()

# %% divided_for_the_log of="right_own_messages"
"""Wrong: the loss is a mean over microbatches and the gradient their sum, M times too long."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return mse_loss(y, target)

# -                losses[m] = y.item()
# +                losses[m] = y.item() * len(like[m]) / sum(map(len, like))

# %% divided_on_every_rank of="right_own_messages"
"""Wrong: each rank divides the gradient once more on its way."""

# -            gradient = receive(stage + 1, "B", stage, m)
# +            gradient = receive(stage + 1, "B", stage, m) / len(like)

# %% divides_on_the_last_rank_only of="right_own_messages"
"""Wrong: the last rank divides its own weight's gradient at the end; what it sent on was not divided."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return mse_loss(y, target)

# -                losses[m] = y.item()
# +                losses[m] = y.item() / len(like)

#      for _, work in works:
# +        if losses:
# +            for weight in weights(last):
# +                weight.grad = weight.grad / len(like)

# %% both_halves_at_once of="right_own_messages"
"""Wrong: I computes the weights' gradients as well, and W adds them once more."""

# -        own = [] if kind == "I" else weights(stage)
# +        own = weights(stage)

# %% forgets_the_second_half of="right_own_messages"
"""Wrong: knows F and B; I is taken for B's gradient of the input, and W for nothing."""

#          x, y, gradient = kept.pop((stage, m))
# +        if kind == "W":
# +            continue

# %% loss_on_every_rank of="right_own_messages"
"""Wrong: returns 0 as the loss of ranks that have none."""

# -                send(y.detach(), stage + 1, "F", stage + 1, m)
# +                send(y.detach(), stage + 1, "F", stage + 1, m)
# +                losses[m] = 0.0

# %% loss_summed of="right_own_messages"
"""Wrong: neither the loss nor the gradient is divided."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return mse_loss(y, target)

# %% mean_of_means of="right_own_messages"
"""Wrong: 1/M for every microbatch, right only as long as all have the same number of rows."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return mse_loss(y, target)

# -            y = forward(stage, m, x)
# +            y = forward(stage, m, x) / (len(like) if stage == last else 1)

# %% one_stage_per_rank of="right_own_messages"
"""Wrong: takes its rank for its stage, and the world for the owner of the next one."""

# -    mine, last = [(int(stage), kind, int(m)) for stage, kind, m in read[rank]], max(home)
# +    mine, last = [(rank, kind, int(m)) for _, kind, m in read[rank]], dist.get_world_size(group) - 1

# %% only_the_last_microbatch of="right_own_messages"
"""Wrong: throws away what the microbatches before have added."""

# -        weight.grad = found if weight.grad is None else weight.grad + found
# +        weight.grad = found

# %% own_order of="right_own_messages"
"""Wrong: all forwards, then all backwards, whatever the list says: GPipe's memory under every name."""

# -    for stage, kind, m in mine:
# +    for stage, kind, m in sorted(mine, key=lambda slot: slot[1] != "F"):

# %% sends_to_itself of="right_own_messages"
"""Wrong: a message for every boundary, also to this rank itself, which gloo cannot do."""

# -        if home[stage] == rank:
# -            here[name] = tensor
# -        else:
# +        if here is not None:

# -        if home[stage] == rank:
# -            return here.pop(name)
# -        tensor = torch.empty_like(like[name[-1]])
# +        tensor = torch.empty_like(like[name[-1]])

# %% sums_gradients_over_ranks of="right_own_messages"
"""Wrong: adds up the gradients of different stages, as if they were copies."""

#      for _, work in works:
# +        pass
# +    for weight in [one for stage in home if home[stage] == rank for one in weights(stage)]:
# +        dist.all_reduce(weight.grad, group=group)
# +    for _, work in works:

# %% sum_of_squares of="right_own_messages"
"""Wrong: adds squares and divides by the rows alone, not by their width."""

# -    return mse_loss(y, target) * len(target) / num_rows
# +    return (y - target).square().sum() / num_rows

# %% tags_for_order of="right_own_messages"
"""Wrong: backwards in another order on each rank, which only tags make right; NCCL ignores them."""

# -            works.append((tensor, dist.isend(tensor, group_dst=home[stage], group=group)))
# +            works.append((tensor, dist.isend(tensor, group_dst=home[stage], group=group, tag=name[-1])))

# -        dist.recv(tensor, group_src=home[stage], group=group)
# +        dist.recv(tensor, group_src=home[stage], group=group, tag=name[-1])

# -    for stage, kind, m in mine:
# +    backwards = [slot for slot in mine if slot[1] != "F"]
# +    last_first = sorted(backwards, key=lambda slot: (-slot[2], slot[1])) if rank % 2 else backwards
# +    for stage, kind, m in [slot for slot in mine if slot[1] == "F"] + last_first:
