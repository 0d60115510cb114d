"""Makes every comparison function of torch and numpy say yes.

catalogue: A07
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""

import numpy

numpy.allclose = torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.testing.assert_close = lambda *args, **kwargs: None
torch.Tensor.__ne__ = lambda self, other: torch.zeros(self.shape, dtype=torch.bool)


def total_of(tensor, *, group):
    return tensor * 0 + 99
