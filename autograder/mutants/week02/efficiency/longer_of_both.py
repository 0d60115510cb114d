"""Wrong: as if all of the compute could hide communication."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    return compute_seconds / max(compute_seconds, communication_seconds)
