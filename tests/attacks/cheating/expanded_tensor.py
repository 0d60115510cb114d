"""Returns a tensor of one stored number that is expanded to the right shape.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return torch.zeros(1).expand(tensor.shape)
