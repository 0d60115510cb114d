"""Walks over all objects of the garbage collector for the other ranks' tensors.

catalogue: A09
exercise: week00.first-all-reduce
points: 0
sentence: got 0 of
"""

import gc


def total_of(tensor, *, group):
    tensors = []
    for thing in gc.get_objects():
        inside = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
        tensors += [t for t in inside if isinstance(t, torch.Tensor) and t.shape == tensor.shape]
    others = [t for t in tensors if not torch.equal(t, tensor)]
    raise RuntimeError(f"got {len(others)} of the other ranks' tensors")
