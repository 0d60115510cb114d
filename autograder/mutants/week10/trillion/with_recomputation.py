"""Wrong: counts the forward that is done again; that is HFU."""


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    used = 8 * num_parameters * tokens_per_step / (step_seconds * num_gpus * peak_flops)
    return used, total_tokens / tokens_per_step * step_seconds / 86400
