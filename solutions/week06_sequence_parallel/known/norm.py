# %% right_async
"""Different: all messages of a group on their way at once; divided before they are added up."""

import torch.distributed as dist


def finish_gradients(gradients, kinds, *, tp_group, dp_group):
    out = [gradient / dist.get_world_size(dp_group) for gradient in gradients]
    works = [dist.all_reduce(out[i], group=tp_group, async_op=True) for i, k in enumerate(kinds) if k == "sequence"]
    for work in works:
        work.wait()
    for work in [dist.all_reduce(one, group=dp_group, async_op=True) for one in out]:
        work.wait()
    return tuple(out)


# %% groups_exchanged of="right_async"
"""Wrong: sums over dp and averages over tp."""

#  def finish_gradients(gradients, kinds, *, tp_group, dp_group):
# +    tp_group, dp_group = dp_group, tp_group

# %% over_the_world of="right_async"
"""Wrong: sums partial gradients over the world at once and divides by the replicas: right, with more bytes."""

# -    works = [dist.all_reduce(out[i], group=tp_group, async_op=True) for i, k in enumerate(kinds) if k == "sequence"]
# -    for work in works:
# -        work.wait()
# -    for work in [dist.all_reduce(one, group=dp_group, async_op=True) for one in out]:
# -        work.wait()
# +    for one, kind in zip(out, kinds, strict=True):
# +        dist.all_reduce(one, group=None if kind == "sequence" else dp_group)

# %% for_two_ranks of="right_async"
"""Wrong: adds the neighbour's alone: right for two tensor-parallel ranks."""

# -    works = [dist.all_reduce(out[i], group=tp_group, async_op=True) for i, k in enumerate(kinds) if k == "sequence"]
# -    for work in works:
# -        work.wait()
# +    rank, size = dist.get_rank(tp_group), dist.get_world_size(tp_group)
# +    for i, k in enumerate(kinds):
# +        if k == "sequence" and size > 1:
# +            other = out[i].clone()
# +            send = dist.isend(out[i], group=tp_group, group_dst=(rank + 1) % size)
# +            dist.recv(other, group=tp_group, group_src=(rank - 1) % size)
# +            send.wait()
# +            out[i] = out[i] + other

# %% broadcasts of="right_async"
"""Wrong: makes copies equal by taking the first rank's."""

# -    works = [dist.all_reduce(out[i], group=tp_group, async_op=True) for i, k in enumerate(kinds) if k == "sequence"]
# +    works = [dist.broadcast(out[i], group=tp_group, group_src=0, async_op=True) for i, k in enumerate(kinds) if k == "sequence"]

# %% right_one_message
"""Different: one message per group and gradients cut out of it again."""

import torch
import torch.distributed as dist


def finish_gradients(gradients, kinds, *, tp_group, dp_group):
    finished = [gradient.clone() for gradient in gradients]
    partial = [one for one, kind in zip(finished, kinds, strict=True) if kind == "sequence"]
    for some, group in ((partial, tp_group), (finished, dp_group)):
        if some and dist.get_world_size(group) > 1:
            flat = torch.cat([one.flatten() for one in some])
            dist.all_reduce(flat, group=group)
            for one, summed in zip(some, flat.split([one.numel() for one in some]), strict=True):
                one.copy_(summed.view_as(one))
    return [one / dist.get_world_size(dp_group) for one in finished]


# %% as_found of="right_one_message"
"""Wrong: leaves the norms' gradients partial (Megatron-LM#1446)."""

# -    for some, group in ((partial, tp_group), (finished, dp_group)):
# +    for some, group in ((finished, dp_group),):

# %% averages_over_tp of="right_one_message"
"""Wrong: takes the mean over positions (gpt-neox#1259)."""

# -                one.copy_(summed.view_as(one))
# +                one.copy_(summed.view_as(one) / (dist.get_world_size(tp_group) if group is tp_group else 1))

# %% reduces_what_is_whole of="right_one_message"
"""Wrong: sums over tp whatever is not split: what is whole grows t times (Megatron-LM#7452, B1)."""

# -    partial = [one for one, kind in zip(finished, kinds, strict=True) if kind == "sequence"]
# +    partial = [one for one, kind in zip(finished, kinds, strict=True) if kind != "split"]

# %% sums_everything_over_tp of="right_one_message"
"""Wrong: sums all gradients over tp, parts of matrices too."""

# -    partial = [one for one, kind in zip(finished, kinds, strict=True) if kind == "sequence"]
# +    partial = finished

# %% norms_are_not_averaged of="right_one_message"
"""Wrong: what was summed over tp is not averaged over dp."""

# -    for some, group in ((partial, tp_group), (finished, dp_group)):
# +    for some, group in ((partial, tp_group), ([one for one, kind in zip(finished, kinds, strict=True) if kind != "sequence"], dp_group)):

# %% no_mean of="right_one_message"
"""Wrong: a sum over the replicas."""

# -    return [one / dist.get_world_size(dp_group) for one in finished]
# +    return finished

# %% divides_by_the_world of="right_one_message"
"""Wrong: divides by all ranks."""

# -    return [one / dist.get_world_size(dp_group) for one in finished]
# +    return [one / dist.get_world_size() for one in finished]

# %% in_place of="right_one_message"
"""Wrong: changes the gradients that it was given."""

# -    finished = [gradient.clone() for gradient in gradients]
# +    finished = list(gradients)
