"""Different: seconds of a token first."""


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    seconds_of_a_token = step_seconds / tokens_per_step
    needed = (2 + 4) * num_parameters / peak_flops / num_gpus
    return [needed / seconds_of_a_token, seconds_of_a_token * total_tokens / (24 * 60 * 60)]
