"""Wrong: 63 for 8 ranks, where the bubble is 10 per cent and not below."""


def smallest_num_microbatches(num_ranks, percent):
    num_microbatches = 1
    while 100 * (num_ranks - 1) > percent * (num_microbatches + num_ranks - 1):
        num_microbatches += 1
    return num_microbatches
