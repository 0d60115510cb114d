"""Different: the last step is a whole one."""

import math


def used_and_days(num_parameters, tokens_per_step, step_seconds, num_gpus, peak_flops, total_tokens):
    return 6 * num_parameters * tokens_per_step / step_seconds / num_gpus / peak_flops, math.ceil(
        total_tokens / tokens_per_step
    ) * step_seconds / 86400
