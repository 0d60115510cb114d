"""Different: tables by number of layers, as in the hint."""

import math


def cut(layers, num_stages, num_microbatches, limit_bytes):
    n = len(layers)
    best = [[math.inf] * (n + 1) for _ in range(num_stages + 1)]
    choice = [[0] * (n + 1) for _ in range(num_stages + 1)]
    best[0][0] = 0
    for s in range(1, num_stages + 1):
        in_flight = min(num_stages - s + 1, num_microbatches)
        for k in range(s, n + 1):
            seconds = held = 0
            for j in range(k - 1, s - 2, -1):
                seconds += layers[j][0]
                held += layers[j][1] + in_flight * layers[j][2]
                if held > limit_bytes:
                    break
                if max(best[s - 1][j], seconds) < best[s][k]:
                    best[s][k], choice[s][k] = max(best[s - 1][j], seconds), j
    sizes, k = [], n
    for s in range(num_stages, 0, -1):
        sizes.append(k - choice[s][k])
        k = choice[s][k]
    return sizes[::-1]
