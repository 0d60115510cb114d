"""Different: from the last stage backwards, remembered."""

import math
from functools import cache


def cut(layers, num_stages, num_microbatches, limit_bytes):
    @cache
    def least(stage, begin):
        if stage == num_stages:
            return (0, ()) if begin == len(layers) else (math.inf, ())
        found, seconds, held = (math.inf, ()), 0, 0
        for end in range(begin + 1, len(layers) - (num_stages - stage - 1) + 1):
            s, p, a = layers[end - 1]
            seconds, held = seconds + s, held + p + min(num_stages - stage, num_microbatches) * a
            if held > limit_bytes:
                break
            behind, sizes = least(stage + 1, end)
            found = min(found, (max(seconds, behind), (end - begin, *sizes)))
        return found

    return list(least(0, 0)[1])
