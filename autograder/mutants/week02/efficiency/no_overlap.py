"""Wrong: as if nothing were hidden."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    return compute_seconds / (compute_seconds + communication_seconds)
