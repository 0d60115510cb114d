"""Wrong: returns the layers of each stage, not how many they are."""


def split_stages(seconds, num_stages):
    base, more = divmod(len(seconds), num_stages)
    sizes = [base + (stage < more) for stage in range(num_stages)]
    return [seconds[sum(sizes[:stage]) : sum(sizes[: stage + 1])] for stage in range(num_stages)]
