"""Wrong: takes the window off the compute."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    return (compute_seconds - window_seconds) / (compute_seconds + communication_seconds)
