"""Wrong: the sum of what the ranks send."""

import torch
import torch.distributed as dist


def one_bit_mean(gradient, *, group):
    positive, powers = gradient >= 0, 2 ** torch.arange(8)
    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
    filled_up = torch.nn.functional.pad(positive.int(), (0, -len(gradient) % 8))
    signs = (filled_up.view(-1, 8) * powers).sum(1).to(torch.uint8)
    message = torch.cat([means.view(torch.uint8), signs])
    messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
    dist.all_gather(messages, message, group=group)
    total = torch.zeros_like(gradient)
    for one in messages:
        up, down = one[:8].view(torch.float32)
        theirs = ((one[8:, None] & powers) != 0).flatten()[: len(gradient)]
        total += torch.where(theirs, up, down)
    return total
