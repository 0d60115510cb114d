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
