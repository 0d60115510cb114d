"""Different: adds up the steps one by one."""


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        step = alpha + num_bytes / num_ranks * beta
        return sum(step for _ in range(2 * (num_ranks - 1)))
    seconds, reached = 0.0, 1
    while reached < num_ranks:
        reached *= 2
        seconds += 2 * (alpha + num_bytes * beta)
    return seconds
