"""Different: rounded to four digits."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
