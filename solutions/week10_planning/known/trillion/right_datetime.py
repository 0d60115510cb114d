"""Different: lets the library count days."""

from datetime import timedelta


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    steps = total_tokens / tokens_per_step
    flops = 3 * 2 * num_parameters * tokens_per_step
    return flops / step_seconds / (num_gpus * peak_flops), timedelta(seconds=1) / timedelta(
        days=1
    ) * steps * step_seconds
