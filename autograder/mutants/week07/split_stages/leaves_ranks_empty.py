"""Wrong: the best limit, filled from the left, so that the last stages may have no layer."""


def split_stages(seconds, num_stages):
    limit = max(seconds)
    while True:
        sizes, filled = [0], 0
        for second in seconds:
            if filled + second > limit:
                sizes.append(0)
                filled = 0
            sizes[-1] += 1
            filled += second
        if len(sizes) <= num_stages:
            return sizes + [0] * (num_stages - len(sizes))
        limit += 1
