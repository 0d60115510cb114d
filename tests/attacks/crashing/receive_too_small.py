"""Receives into a tensor that is too small, which ends the process without an exception.

catalogue: B05
exercise: week01.exchange
points: 0
sentence: received as
"""


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    work = dist.isend(tensor, group_dst=partner, group=group)
    dist.recv(torch.empty(1, dtype=tensor.dtype), group_src=partner, group=group)
    work.wait()
    return tensor
