# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% at_the_peak of="right_as_taught"
"""Wrong: days at the peak."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return used, 6 * num_parameters * total_tokens / (num_gpus * peak_flops) / 86400

# %% forward_only of="right_as_taught"
"""Wrong: 2 FLOPs per parameter."""

# -    used = 6 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)
# +    used = 2 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)

# %% hours of="right_as_taught"
"""Wrong: in hours."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return used, total_tokens / tokens_per_step * step_seconds / 3600

# %% one_gpu of="right_as_taught"
"""Wrong: the peak of one GPU."""

# -    used = 6 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)
# +    used = 6 * num_parameters * tokens_per_step / (step_seconds * peak_flops)

# %% only_one of="right_as_taught"
"""Wrong: one number."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return used

# %% per_cent of="right_as_taught"
"""Wrong: in per cent."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return 100 * used, total_tokens / tokens_per_step * step_seconds / 86400

# %% swapped of="right_as_taught"
"""Wrong: days first."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return total_tokens / tokens_per_step * step_seconds / 86400, used

# %% whole_steps of="right_as_taught"
"""Wrong: rounds the steps down."""

# -    return used, total_tokens / tokens_per_step * step_seconds / 86400
# +    return used, total_tokens // tokens_per_step // 100 * 100 * step_seconds / 86400

# %% with_recomputation of="right_as_taught"
"""Wrong: counts the forward that is done again; that is HFU."""

# -    used = 6 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)
# +    used = 8 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)

# %% right_datetime
"""Different: lets the library count days."""

from datetime import timedelta


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    steps = total_tokens / tokens_per_step
    flops = 3 * 2 * num_parameters * tokens_per_step
    return flops / step_seconds / (num_gpus * peak_flops), timedelta(seconds=1) / timedelta(
        days=1
    ) * steps * step_seconds


# %% right_through_the_tokens
"""Different: seconds of a token first."""


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    seconds_of_a_token = step_seconds / tokens_per_step
    needed = (2 + 4) * num_parameters / peak_flops / num_gpus
    return [needed / seconds_of_a_token, seconds_of_a_token * total_tokens / (24 * 60 * 60)]


# %% right_whole_steps
"""Different: the last step is a whole one."""

import math


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    return 6 * num_parameters * tokens_per_step / step_seconds / num_gpus / peak_flops, math.ceil(
        total_tokens / tokens_per_step
    ) * step_seconds / 86400
