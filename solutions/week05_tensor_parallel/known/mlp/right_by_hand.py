"""Different: the backward by hand."""

import torch.distributed as dist


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    scores = x @ up + up_bias
    inner = scores.clamp(min=0)
    y = inner @ down
    dist.all_reduce(y, group=group)
    y += down_bias
    d_inner = (gradient @ down.T) * (scores > 0)
    d_x = d_inner @ up.T
    dist.all_reduce(d_x, group=group)
    return y, d_x, x.T @ d_inner, d_inner.sum(0), inner.T @ gradient, gradient.sum(0)
