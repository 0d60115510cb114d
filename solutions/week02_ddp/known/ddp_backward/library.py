"""Wrong: torch's own wrapper, with its own buckets."""

import copy

import torch


def ddp_backward(model, microbatches, buckets, *, group):
    inner = copy.deepcopy(model)
    wrapped = torch.nn.parallel.DistributedDataParallel(inner, process_group=group)
    with wrapped.no_sync():
        for rows in microbatches[:-1]:
            wrapped(rows).sum().backward()
    wrapped(microbatches[-1]).sum().backward()
    for mine, theirs in zip(model.parameters(), inner.parameters(), strict=True):
        mine.data.copy_(theirs.data)
        mine.grad = theirs.grad.clone()
