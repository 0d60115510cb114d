"""Patches the encoder of results so that whatever was sent reads as a ring's bill.

catalogue: own
exercise: week01.ring-reduce-scatter
points: 0
sentence: calls all_gather
"""

from autograder.jobs import plain

honest = plain.parts


def ring_reduce_scatter(chunks, *, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    whole, width = torch.cat(list(chunks)), chunks[0].element_size()
    parts = [torch.empty_like(whole) for _ in range(size)]
    dist.all_gather(parts, whole, group=group)
    sends = [["send", [], 0, c.numel() * width, 0.0] for place, c in enumerate(chunks) if place != rank]

    def forged(value):
        if isinstance(value, dict) and "events" in value:
            value = value | {"events": sends, "kinds": ["send", "recv"] * len(sends)}
        return honest(value)

    plain.parts = forged
    return sum(parts).tensor_split(size)[rank].clone()
