"""Returns a subclass of a tensor that claims to be equal to everything.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: not a tensor
"""


class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True if "equal" in func.__name__ else super().__torch_function__(func, types, args, kwargs or {})


def total_of(tensor, *, group):
    return torch.ones_like(tensor).as_subclass(Equal)
