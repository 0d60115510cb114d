# %% right_as_taught from="page"
"""Different: gradient by gradient, the count first."""

import torch
import torch.distributed as dist

# %% norms_are_partial of="right_as_taught"
"""Wrong: forgets tp for norms (Megatron-LM#1446)."""

# -    partial_over = {"norm": tp, "tied": ends}
# +    partial_over = {"tied": ends}

# %% ends_apart of="right_as_taught"
"""Wrong: first and last stage keep their own part of the tied weight (piper#13)."""

# -    partial_over = {"norm": tp, "tied": ends}
# +    partial_over = {"norm": tp}

# %% experts_over_all of="right_as_taught"
"""Wrong: adds experts over dp and cp: different experts into each other."""

# -        dist.all_reduce(total, group=edp if kind == "expert" else copies)
# +        dist.all_reduce(total, group=copies)

# %% all_over_edp of="right_as_taught"
"""Wrong: adds dense gradients over edp alone."""

# -        dist.all_reduce(total, group=edp if kind == "expert" else copies)
# +        dist.all_reduce(total, group=edp)

# %% experts_times_ep of="right_as_taught"
"""Wrong: divides experts by the tokens of their copies alone (DeepSpeed#5618)."""

# -        finished.append(total / valid.item())
# +        own = torch.tensor([float(tokens)])
# +        dist.all_reduce(own, group=edp)
# +        finished.append(total / max(1.0, own.item() if kind == "expert" else valid.item()))

# %% mean_of_means of="right_as_taught"
"""Wrong: divides by its own tokens, then by the number of ranks (Megatron-LM#7513)."""

# -        finished.append(total / valid.item())
# +        finished.append(total / max(1, tokens) / dist.get_world_size(copies))

# %% number_of_ranks of="right_as_taught"
"""Wrong: divides by the number of ranks."""

# -        finished.append(total / valid.item())
# +        finished.append(total / dist.get_world_size(copies))

# %% tokens_of_the_world of="right_as_taught"
"""Wrong: counts each token once for every rank of tp, too."""

#      dist.all_reduce(valid, group=copies)
# +    dist.all_reduce(valid, group=tp)

# %% not_divided of="right_as_taught"
"""Wrong: returns sums."""

# -        finished.append(total / valid.item())
# +        finished.append(total)

# %% norms_twice of="right_as_taught"
"""Wrong: a mean of norms over tp."""

#              dist.all_reduce(total, group=partial_over[kind])
# +        if kind == "norm":
# +            total /= dist.get_world_size(tp)

# %% all_over_tp of="right_as_taught"
"""Wrong: adds dense gradients over tp, too: t times too large."""

# -    partial_over = {"norm": tp, "tied": ends}
# +    partial_over = {"norm": tp, "dense": tp, "tied": ends}

# %% nothing_sent of="right_as_taught"
"""Wrong: nothing is added up."""

# -        dist.all_reduce(total, group=edp if kind == "expert" else copies)

# %% gathers of="right_as_taught"
"""Wrong: gathers whole gradients of all copies and adds them up itself."""

# -        dist.all_reduce(total, group=edp if kind == "expert" else copies)
# +        group = edp if kind == "expert" else copies
# +        parts = [torch.empty_like(total) for _ in range(dist.get_world_size(group))]
# +        dist.all_gather(parts, total, group=group)
# +        dist.all_gather(parts, total, group=group)
# +        total = sum(parts)

# %% in_place of="right_as_taught"
"""Wrong: works in the tensors it was given."""

# -        total = gradient.clone()
# +        total = gradient

# %% for_two of="right_as_taught"
"""Wrong: divides by two ranks' tokens, guessed from its own."""

# -        finished.append(total / valid.item())
# +        finished.append(total / (2 * tokens or 1))

# %% idle_rank_leaves of="right_as_taught"
"""Wrong: a rank without tokens goes home."""

#      dist.all_reduce(valid, group=copies)
# +    if not tokens:
# +        return [one.clone() for one in gradients]

# %% right_flat
"""Different: one flat message for each group, in double precision of the divisor alone, copies before tp and ends."""

import torch
import torch.distributed as dist


def summed(tensors, group):
    if not tensors:
        return
    flat = torch.cat([one.view(-1) for one in tensors])
    dist.all_reduce(flat, group=group)
    for one, new in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
        one.view(-1).copy_(new)


def finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends):
    own = [gradient.clone().contiguous() for gradient in gradients]
    by_kind = {kind: [one for one, its in zip(own, kinds, strict=True) if its == kind] for kind in kinds}
    count = torch.tensor(tokens, dtype=torch.int64)
    dist.all_reduce(count, group=copies)
    summed([one for kind, some in by_kind.items() if kind != "expert" for one in some], copies)
    for kind, group in (("expert", edp), ("norm", tp), ("tied", ends)):
        summed(by_kind.get(kind, []), group)
    return [one / count for one in own]
