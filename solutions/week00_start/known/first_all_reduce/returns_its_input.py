"""Wrong: returns its own numbers, nothing was exchanged."""


def total_of(tensor, *, group):
    return tensor.clone()
