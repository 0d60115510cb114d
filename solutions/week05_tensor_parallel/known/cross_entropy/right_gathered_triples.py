"""Different: each rank's own three numbers are gathered, and put together as in an online softmax."""

import torch
import torch.distributed as dist


def vocabulary_loss(logits, targets, vocabulary, *, group):
    columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
    num_real = max(0, min(columns, vocabulary - first))
    real = logits[:, :num_real].double()
    own = torch.zeros(3, len(targets))
    own[0] = real.amax(1) if num_real else -1e30
    own[1] = (real - own[0].double()[:, None]).exp().sum(1)
    mine = (targets >= first) & (targets < first + num_real)
    own[2, mine] = logits[mine, targets[mine] - first]
    triples = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(triples, own, group=group)
    highest, sums, chosen = torch.stack(triples, 1).double()
    lse = (highest + sums.clamp(min=1e-300).log()).logsumexp(0)
    gradient = torch.zeros_like(logits)
    gradient[:, :num_real] = (real - lse[:, None]).exp().float()
    gradient[mine, targets[mine] - first] -= 1
    return (lse - chosen.sum(0)).float(), gradient / len(targets)
