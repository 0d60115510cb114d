"""Different: one loop over gradients and their groups."""

import torch.distributed as dist


def finish_gradients(dense, experts, max_norm, *, dp, ep, edp):
    size = dist.get_world_size(dp)
    means = []
    for gradients, group in ((dense, dp), (experts, edp)):
        copies = [one.clone() for one in gradients]
        for one in copies:
            dist.all_reduce(one, group=group)
            one.div_(size)
        means.append(copies)
    squares = sum(one.square().sum() for one in means[1])
    dist.all_reduce(squares, group=ep)
    norm = (squares + sum(one.square().sum() for one in means[0])).sqrt()
    scale = (max_norm / norm).clamp(max=1.0)
    return norm, [one * scale for one in means[0]], [one * scale for one in means[1]]


def gradients_step(dense, experts, max_norm, *, dp, ep, edp):
    norm, dense, experts = finish_gradients(dense, experts, max_norm, dp=dp, ep=ep, edp=edp)
    return norm, *dense, *experts
