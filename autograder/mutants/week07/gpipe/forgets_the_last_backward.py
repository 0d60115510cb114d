"""Wrong: off by one, the last microbatch never goes back."""


def gpipe(num_ranks, num_microbatches):
    return [
        [f"{rank}F{m}" for m in range(num_microbatches)] + [f"{rank}B{m}" for m in range(num_microbatches - 1)]
        for rank in range(num_ranks)
    ]
