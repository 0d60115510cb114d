"""Different: looks for the smallest limit by bisection and keeps a layer for each stage to come."""


def fill(seconds, num_stages, limit):
    sizes, place = [], 0
    for stages_left in range(num_stages - 1, -1, -1):
        size = filled = 0
        while place + size < len(seconds) - stages_left and filled + seconds[place + size] <= limit:
            filled += seconds[place + size]
            size += 1
        sizes.append(size)
        place += size
    return sizes if place == len(seconds) and min(sizes) > 0 else None


def split_stages(seconds, num_stages):
    low, high = max(seconds) - 1, sum(seconds)
    while high - low > 1:
        middle = (low + high) // 2
        if fill(seconds, num_stages, middle):
            high = middle
        else:
            low = middle
    return fill(seconds, num_stages, high)
