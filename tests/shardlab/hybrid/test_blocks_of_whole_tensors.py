"""Ranges of a flattened tensor as blocks of a whole tensor: each element once, in the right place."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from shardlab.hybrid.places import cut_place, fragments, rectangles
from shardlab.tensor_parallel.cut import Cut

shapes = st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple)


@given(shapes, st.data())
def test_rectangles_are_the_stretch(shape, data):
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    begin = data.draw(st.integers(0, numbers.numel()))
    end = data.draw(st.integers(begin, numbers.numel()))
    found = []
    for start, sizes in rectangles(shape, begin, end):
        block = numbers[tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))]
        assert block.is_contiguous()
        found += block.flatten().tolist()
    assert found == list(range(begin, end))
    assert len(list(rectangles(shape, begin, end))) <= max(1, 2 * len(shape) - 1)


CUTS = [
    (Cut((6,)), (6, 3)),
    (Cut((4, 4), dim=1), (3, 8)),
    (Cut((8, 4, 4), units=(4, 2, 2)), (16, 3)),
    (Cut((7,), padded=True), (7, 2)),
    (Cut((4, 4)), (8,)),
]


@given(st.sampled_from(CUTS), st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_all_ranks_blocks_make_the_whole(one, size, num_slices):
    cut, shape = one
    if any(not cut.padded and not cut.units and section % size for section in cut.sections):
        return
    whole = 1 + torch.arange(torch.Size(shape).numel()).view(shape)
    again, times = torch.zeros_like(whole), torch.zeros(shape)
    for rank in range(size):
        part = cut.part(whole, rank, size)
        place = cut_place("weight", tuple(part.shape), 0, cut=cut, rank=rank, size=size)
        assert place.shape == shape
        each = -(-part.numel() // num_slices)
        for begin in range(0, part.numel(), each):  # a ZeRO shard of it, stored in a vector from index 5
            end = min(begin + each, part.numel())
            vector = torch.cat([torch.zeros(5, dtype=part.dtype), part.flatten()[begin:end]])
            for block in fragments(place, part.shape, begin, end, at=5):
                numbers = block.of(vector)
                box = tuple(slice(o, o + n) for o, n in zip(block.offsets, numbers.shape, strict=True))
                again[box] = numbers
                times[box] += 1 / block.copies
    assert torch.equal(again, whole)
    assert torch.allclose(times, torch.ones(shape))
