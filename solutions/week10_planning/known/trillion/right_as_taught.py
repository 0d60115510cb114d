"""Different: as the page solves it."""


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    used = 6 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)
    return used, total_tokens / tokens_per_step * step_seconds / 86400
