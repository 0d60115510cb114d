"""Both ranks send first: a send returns only when the other side receives.

catalogue: C05
exercise: week01.exchange
points: 0
sentence: Nobody receives
"""


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    dist.send(tensor, group_dst=partner, group=group)
    dist.recv(received, group_src=partner, group=group)
    return received
