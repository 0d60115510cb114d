"""Wrong: a window that is too large makes the communication negative."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    return compute_seconds / (compute_seconds + communication_seconds - window_seconds)
