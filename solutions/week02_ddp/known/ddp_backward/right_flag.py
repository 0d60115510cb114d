"""Different: hooks from the start and a flag, as no_sync has; one broadcast of all weights."""

import torch
import torch.distributed as dist


def ddp_backward(model, microbatches, buckets, *, group):
    parameters, size = list(model.parameters()), dist.get_world_size(group)
    flat = torch.nn.utils.parameters_to_vector(parameters).detach()
    dist.broadcast(flat, group_src=0, group=group)
    torch.nn.utils.vector_to_parameters(flat, parameters)
    state = {"sync": False, "arrived": set(), "works": []}

    def hook(parameter):
        if not state["sync"]:
            return
        state["arrived"].add(next(n for n, p in enumerate(parameters) if p is parameter))
        while (place := len(state["works"])) < len(buckets) and state["arrived"].issuperset(buckets[place]):
            message = torch.cat([parameters[n].grad.flatten() for n in buckets[place]])
            state["works"].append((dist.all_reduce(message, group=group, async_op=True), message))

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(hook)
    for number, rows in enumerate(microbatches):
        state["sync"] = number == len(microbatches) - 1
        model(rows).sum().backward()
    for bucket, (work, message) in zip(buckets, state["works"], strict=True):
        work.wait()
        at = 0
        for n in bucket:
            end = at + parameters[n].numel()
            parameters[n].grad = (message[at:end] / size).view(parameters[n].shape)
            at = end
