# %% right_by_hand
"""Different: attention written out head by head."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel import copy_to_tp, reduce_from_tp


def attention(x, queries, keys, values, out, width, *, group):
    own, kv_heads = queries.shape[1] // width, keys.shape[1] // width
    first, ratio = dist.get_rank(group) * own, own * dist.get_world_size(group) // kv_heads
    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))
    mask = torch.ones(len(x), len(x), dtype=torch.bool).tril()
    heads = []
    for n in range(own):
        place = slice((first + n) // ratio * width, ((first + n) // ratio + 1) * width)
        q, k, v = x @ queries[:, n * width : (n + 1) * width], x @ keys[:, place], x @ values[:, place]
        scores = (q @ k.T / width**0.5).masked_fill(~mask, -torch.inf)
        heads.append(scores.softmax(-1) @ v)
    y = reduce_from_tp(torch.cat(heads, 1) @ out, group=group)
    return y


def attention_step(x, queries, keys, values, out, gradient, width, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, queries, keys, values, out)]
    y = attention(*leaves, width, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% f_on_keys_alone of="right_by_hand"
"""Wrong: f on the keys, and none on the values."""

# -    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))
# +    x, keys = (copy_to_tp(one, group=group) for one in (x, keys))

# %% f_on_activations of="right_by_hand"
"""Wrong: f on the projected keys and values: right, and as long as the sequence."""

# -    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))
# +    plain, x = x, copy_to_tp(x, group=group)
#      mask = torch.ones(len(x), len(x), dtype=torch.bool).tril()
# +    all_k, all_v = copy_to_tp(plain @ keys, group=group), copy_to_tp(plain @ values, group=group)

# -        q, k, v = x @ queries[:, n * width : (n + 1) * width], x @ keys[:, place], x @ values[:, place]
# +        q, k, v = x @ queries[:, n * width : (n + 1) * width], all_k[:, place], all_v[:, place]

# %% the_first_heads of="right_by_hand"
"""Wrong: every rank takes the first heads of keys."""

# -    first, ratio = dist.get_rank(group) * own, own * dist.get_world_size(group) // kv_heads
# +    first, ratio = 0, own * dist.get_world_size(group) // kv_heads

# %% next_head of="right_by_hand"
"""Wrong: deals the heads of keys out in turn, n modulo kv_heads."""

# -        place = slice((first + n) // ratio * width, ((first + n) // ratio + 1) * width)
# +        place = slice((first + n) % kv_heads * width, ((first + n) % kv_heads + 1) * width)

# %% one_head_a_rank of="right_by_hand"
"""Wrong: all query heads of a rank use the head of keys of its first one: right where kv heads divide t."""

# -        place = slice((first + n) // ratio * width, ((first + n) // ratio + 1) * width)
# +        place = slice(first // ratio * width, (first // ratio + 1) * width)

# %% no_f of="right_by_hand"
"""Wrong: the gradient of x is the rank's own part."""

# -    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))
# +    keys, values = (copy_to_tp(one, group=group) for one in (keys, values))

# %% no_g of="right_by_hand"
"""Wrong: the output is a partial sum."""

# -    y = reduce_from_tp(torch.cat(heads, 1) @ out, group=group)
# +    y = torch.cat(heads, 1) @ out

# %% not_causal of="right_by_hand"
"""Wrong: looks ahead."""

# -    mask = torch.ones(len(x), len(x), dtype=torch.bool).tril()
# +    mask = torch.ones(len(x), len(x), dtype=torch.bool)

# %% gathers_the_heads of="right_by_hand"
"""Wrong: gathers what the heads give, and the rows of out, before the product."""

# -    return y
# +    mine = torch.cat(heads, 1).detach()
# +    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
# +    dist.all_gather(parts, mine, group=group)
# +    rows = [torch.empty_like(out.detach()) for _ in parts]
# +    dist.all_gather(rows, out.detach(), group=group)
# +    y.data = torch.cat(parts, 1) @ torch.cat(rows)
# +    return y

# %% forgets_the_subgroup of="right_by_hand"
"""Wrong: its heads by the rank in the world."""

# -    first, ratio = dist.get_rank(group) * own, own * dist.get_world_size(group) // kv_heads
# +    first, ratio = dist.get_rank() % dist.get_world_size(group) * own, own * dist.get_world_size(group) // kv_heads

# %% all_queries_too of="right_by_hand"
"""Wrong: adds up the gradient of the queries, which are split."""

# -    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))
# +    x, keys, values, queries = (copy_to_tp(one, group=group) for one in (x, keys, values, queries))

# %% no_scale of="right_by_hand"
"""Wrong: scores are not divided by the root of the width."""

# -        scores = (q @ k.T / width**0.5).masked_fill(~mask, -torch.inf)
# +        scores = (q @ k.T).masked_fill(~mask, -torch.inf)

# %% right_one_message
"""Different: f on keys and values together, so that their gradients are added up in one message."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel import copy_to_tp, reduce_from_tp
from torch.nn.functional import scaled_dot_product_attention


def attention(x, queries, keys, values, out, width, *, group):
    entering = copy_to_tp(x, group=group)
    both = torch.cat([keys, values], 1)
    both = copy_to_tp(both, group=group)
    keys, values = both.chunk(2, 1)
    q, k, v = ((entering @ one).unflatten(1, (-1, width)).transpose(0, 1) for one in (queries, keys, values))
    every = torch.arange(len(k)).repeat_interleave(len(q) * dist.get_world_size(group) // len(k))
    needed = every[dist.get_rank(group) * len(q) :][: len(q)]
    heads = scaled_dot_product_attention(q, k[needed], v[needed], is_causal=True)
    return reduce_from_tp(heads.transpose(0, 1).flatten(1) @ out, group=group)


def attention_step(x, queries, keys, values, out, gradient, width, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, queries, keys, values, out)]
    y = attention(*leaves, width, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% no_sum_over_copies of="right_one_message"
"""Wrong: copies of keys and values keep the gradient of the rank's own heads."""

# -    both = copy_to_tp(both, group=group)

# %% mean_over_copies of="right_one_message"
"""Wrong: the mean of the copies' gradients."""

#      both = torch.cat([keys, values], 1)
# +    both.register_hook(lambda gradient: gradient / dist.get_world_size(group))

# %% halves of="right_one_message"
"""Wrong: right for two ranks: twice the mean of the copies' gradients."""

#      both = torch.cat([keys, values], 1)
# +    both.register_hook(lambda gradient: gradient * 2 / dist.get_world_size(group))
