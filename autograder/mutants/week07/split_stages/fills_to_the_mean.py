"""Wrong: closes a stage as soon as it has its share of the mean, the last takes what is left."""


def split_stages(seconds, num_stages):
    share, sizes, size, filled = sum(seconds) / num_stages, [], 0, 0
    for place, second in enumerate(seconds):
        size, filled = size + 1, filled + second
        stages_left = num_stages - len(sizes) - 1
        layers_left = len(seconds) - place - 1
        if stages_left and (filled >= share or layers_left == stages_left):
            sizes.append(size)
            size, filled = 0, 0
    return [*sizes, size]
