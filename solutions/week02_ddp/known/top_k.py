# %% right_masks
"""Different: a dense mask on each rank, index_put_ with accumulate."""

import torch
import torch.distributed as dist


def compressed_means(gradients, num_kept, *, group):
    size, left_out = dist.get_world_size(group), [torch.zeros_like(gradients[0])]

    def one_step(gradient):
        whole = left_out.pop() + gradient
        chosen = torch.zeros_like(whole, dtype=torch.bool)
        chosen[whole.abs().topk(num_kept)[1]] = True
        left_out.append(torch.where(chosen, 0.0, whole))
        places, values = chosen.nonzero().flatten().int(), whole[chosen] / size
        theirs = [[torch.empty_like(mine) for _ in range(size)] for mine in (places, values)]
        for everybody, mine in zip(theirs, (places, values), strict=True):
            dist.all_gather(everybody, mine, group=group)
        mean = torch.zeros_like(whole)
        return mean.index_put_((torch.cat(theirs[0]).long(),), torch.cat(theirs[1]), accumulate=True)

    return [one_step(gradient) for gradient in gradients]


# %% right_one_message
"""Different: places and values in one message of bytes."""

import torch
import torch.distributed as dist


def compressed_means(gradients, num_kept, *, group):
    size, means, left_out = dist.get_world_size(group), [], 0.0
    for gradient in gradients:
        whole = gradient + left_out
        places = whole.abs().argsort(descending=True)[:num_kept]
        message = torch.cat([places.to(torch.int32), whole[places].view(torch.int32)])
        left_out = whole.clone()
        left_out[places] = 0
        everybody = message.new_empty(size * message.numel())
        dist.all_gather_single(everybody, message, group=group)
        total = torch.zeros_like(whole)
        for one in everybody.view(size, 2, num_kept):
            total.index_add_(0, one[0], one[1].view(torch.float32))
        means.append(total / size)
    return means


# %% feedback_after_the_choice
"""Wrong: chooses from the gradient, and adds what was left out to the chosen places alone."""

import torch
import torch.distributed as dist


def compressed_means(gradients, num_kept, *, group):
    size, means = dist.get_world_size(group), []
    left_out = torch.zeros_like(gradients[0])
    for gradient in gradients:
        whole = gradient + left_out
        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
        values = whole[places]
        left_out = whole.index_fill(0, places.long(), 0.0)
        all_places = [torch.empty_like(places) for _ in range(size)]
        all_values = [torch.empty_like(values) for _ in range(size)]
        dist.all_gather(all_places, places, group=group)
        dist.all_gather(all_values, values, group=group)
        total = torch.zeros_like(whole)
        for where, what in zip(all_places, all_values, strict=True):
            total.index_add_(0, where, what)
        means.append(total / size)
    return means


# %% changes_its_input of="feedback_after_the_choice"
"""Wrong: adds what was left out to the caller's gradients."""

# -        whole = gradient + left_out
# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        whole = gradient.add_(left_out)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# %% dense of="feedback_after_the_choice"
"""Wrong: right means, but zeros travel as well."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        all_places = [torch.empty_like(places) for _ in range(size)]
# -        all_values = [torch.empty_like(values) for _ in range(size)]
# -        dist.all_gather(all_places, places, group=group)
# -        dist.all_gather(all_values, values, group=group)
# -        total = torch.zeros_like(whole)
# -        for where, what in zip(all_places, all_values, strict=True):
# -            total.index_add_(0, where, what)
# +        total = torch.zeros_like(whole).index_add(0, places, values)
# +        dist.all_reduce(total, group=group)

# %% feedback_of_everything of="feedback_after_the_choice"
"""Wrong: what was sent is kept as well, and sent again."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        left_out = whole.index_fill(0, places.long(), 0.0)
# +        left_out = whole

# %% feedback_of_this_step_only of="feedback_after_the_choice"
"""Wrong: forgets what was left out before the last step."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        left_out = whole.index_fill(0, places.long(), 0.0)
# +        left_out = gradient.index_fill(0, places.long(), 0.0)

# %% forgets_the_group of="feedback_after_the_choice"
"""Wrong: the default group, and right only where it is the whole world."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        dist.all_gather(all_values, values, group=group)
# +        dist.all_gather(all_values, values)

# %% half_the_values of="feedback_after_the_choice"
"""Wrong: values in bfloat16: fewer bytes, other numbers."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# -        values = whole[places]
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)
# +        values = whole[places].bfloat16()

# -            total.index_add_(0, where, what)
# +            total.index_add_(0, where, what.float())

# %% int64_places of="feedback_after_the_choice"
"""Wrong: places of eight bytes each."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices

# %% largest_not_largest_magnitude of="feedback_after_the_choice"
"""Wrong: the largest numbers, not those of largest magnitude."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.topk(num_kept).indices.to(torch.int32)

# %% no_feedback of="feedback_after_the_choice"
"""Wrong: what is left out is lost."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        left_out = whole.index_fill(0, places.long(), 0.0)

# %% one_places_for_all of="feedback_after_the_choice"
"""Wrong: all-reduces the values and takes its own places for everybody's."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        all_places = [torch.empty_like(places) for _ in range(size)]
# -        all_values = [torch.empty_like(values) for _ in range(size)]
# -        dist.all_gather(all_places, places, group=group)
# -        dist.all_gather(all_values, values, group=group)
# -        total = torch.zeros_like(whole)
# -        for where, what in zip(all_places, all_values, strict=True):
# -            total.index_add_(0, where, what)
# +        dist.all_reduce(values, group=group)
# +        total = torch.zeros_like(whole).index_add(0, places, values)

# %% overwrites of="feedback_after_the_choice"
"""Wrong: where two ranks send the same place, one number is lost."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -            total.index_add_(0, where, what)
# +            total[where] = what

# %% smallest of="feedback_after_the_choice"
"""Wrong: the smallest magnitudes."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept, largest=False).indices.to(torch.int32)

# %% sum_for_mean of="feedback_after_the_choice"
"""Wrong: the sum."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        means.append(total / size)
# +        means.append(total)

# %% top_k_of_the_mean of="feedback_after_the_choice"
"""Wrong: averages first and keeps the largest of the mean."""

# -        places = gradient.abs().topk(num_kept).indices.to(torch.int32)
# +        dist.all_reduce(whole, group=group)
# +        places = whole.abs().topk(num_kept).indices.to(torch.int32)

# -        means.append(total / size)
# +        means.append(total / size**2)
