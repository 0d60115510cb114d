"""Different: if and else."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    if communication_seconds <= window_seconds:
        return 1.0
    return compute_seconds / (compute_seconds + communication_seconds - window_seconds)
