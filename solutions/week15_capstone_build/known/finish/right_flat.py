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
