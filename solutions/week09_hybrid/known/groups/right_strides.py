"""Different: a corner and steps along the axes."""

from itertools import product


def groups(axes, sizes):
    strides, so_far = {}, 1
    for name, size in sizes.items():
        strides[name] = so_far
        so_far *= size
    offsets = sorted(
        sum(step) for step in product(*([place * strides[name] for place in range(sizes[name])] for name in axes))
    )
    corners = [rank for rank in range(so_far) if all(rank // strides[name] % sizes[name] == 0 for name in axes)]
    return [tuple(corner + offset for offset in offsets) for corner in corners]
