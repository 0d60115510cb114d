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
