"""Wrong: as many layers for every stage, whatever they cost."""


def split_stages(seconds, num_stages):
    base, more = divmod(len(seconds), num_stages)
    return [base + (stage < more) for stage in range(num_stages)]
