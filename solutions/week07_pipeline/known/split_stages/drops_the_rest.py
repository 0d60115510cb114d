"""Wrong: rounds down and loses the layers that are left over."""


def split_stages(seconds, num_stages):
    return [len(seconds) // num_stages] * num_stages
