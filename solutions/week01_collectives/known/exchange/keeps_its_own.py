"""Wrong: returns its own tensor, nothing was exchanged."""


def exchange(tensor, *, group):
    return tensor.clone()
