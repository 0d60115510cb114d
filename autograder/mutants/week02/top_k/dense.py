"""Wrong: right means, but zeros travel as well."""

import torch
import torch.distributed as dist


def compressed_means(gradients, num_kept, *, group):
    size, means = dist.get_world_size(group), []
    left_out = torch.zeros_like(gradients[0])
    for gradient in gradients:
        whole = gradient + left_out
        places = whole.abs().topk(num_kept).indices.to(torch.int32)
        values = whole[places]
        left_out = whole.index_fill(0, places.long(), 0.0)
        total = torch.zeros_like(whole).index_add(0, places, values)
        dist.all_reduce(total, group=group)
        means.append(total / size)
    return means
