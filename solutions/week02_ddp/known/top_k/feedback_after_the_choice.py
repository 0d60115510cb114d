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
