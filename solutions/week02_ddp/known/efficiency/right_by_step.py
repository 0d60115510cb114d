"""Different: how long the step takes, first."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    hidden = min(communication_seconds, window_seconds)
    step = compute_seconds + communication_seconds - hidden
    return compute_seconds / step
