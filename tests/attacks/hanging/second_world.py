"""Makes the world a second time, with another size.

catalogue: C13
exercise: week00.first-all-reduce
points: 0
sentence: trying to initialize the default process group twice
"""


def total_of(tensor, *, group):
    dist.init_process_group("gloo", rank=0, world_size=5)
    return tensor
