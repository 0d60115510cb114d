"""Wrong: the share that waits."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    exposed = max(0, communication_seconds - window_seconds)
    return exposed / (compute_seconds + exposed)
