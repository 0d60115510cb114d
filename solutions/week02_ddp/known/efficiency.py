# %% right_by_step
"""Different: how long the step takes, first."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    hidden = min(communication_seconds, window_seconds)
    step = compute_seconds + communication_seconds - hidden
    return compute_seconds / step


# %% above_one of="right_by_step"
"""Wrong: a window that is too large makes the communication negative."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    return compute_seconds / (compute_seconds + communication_seconds - window_seconds)

# %% exposed_share of="right_by_step"
"""Wrong: the share that waits."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    exposed = max(0, communication_seconds - window_seconds)
# +    return exposed / (compute_seconds + exposed)

# %% longer_of_both of="right_by_step"
"""Wrong: as if all of the compute could hide communication."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    return compute_seconds / max(compute_seconds, communication_seconds)

# %% no_overlap of="right_by_step"
"""Wrong: as if nothing were hidden."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    return compute_seconds / (compute_seconds + communication_seconds)

# %% per_cent of="right_by_step"
"""Wrong: per cent."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    exposed = max(0, communication_seconds - window_seconds)
# +    return 100 * compute_seconds / (compute_seconds + exposed)

# %% window_is_hidden_compute of="right_by_step"
"""Wrong: takes the window off the compute."""

# -    hidden = min(communication_seconds, window_seconds)
# -    step = compute_seconds + communication_seconds - hidden
# -    return compute_seconds / step
# +    return (compute_seconds - window_seconds) / (compute_seconds + communication_seconds)

# %% right_max
"""Different: if and else."""


def efficiency(compute_seconds, communication_seconds, window_seconds):
    if communication_seconds <= window_seconds:
        return 1.0
    return compute_seconds / (compute_seconds + communication_seconds - window_seconds)
