"""Wrong: right where every axis has two ranks."""


def groups(axes, sizes):
    bits = [1 << place for place, name in enumerate(sizes) if name in axes]
    mask, world = sum(bits), 2 ** len(sizes)
    return [[r for r in range(world) if r & ~mask == corner] for corner in range(world) if not corner & mask]
