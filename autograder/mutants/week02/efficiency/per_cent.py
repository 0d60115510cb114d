"""Wrong: per cent."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    exposed = max(0, communication_seconds - window_seconds)
    return 100 * compute_seconds / (compute_seconds + exposed)
