"""Wrong: every stage holds as many as the first."""

import math


def cut(layers, num_stages, num_microbatches, limit_bytes):
    best, came_from = {0: 0}, []
    for stage in range(num_stages):
        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
        for begin, slowest in best.items():
            seconds = held = 0
            for end in range(begin + 1, len(layers) + 1):
                seconds += layers[end - 1][0]
                held += layers[end - 1][1] + in_flight * layers[end - 1][2]
                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
                    now[end], begins[end] = max(slowest, seconds), begin
        best = now
        came_from.append(begins)
    sizes, end = [], len(layers)
    for begins in reversed(came_from):
        sizes.insert(0, end - begins[end])
        end = begins[end]
    return sizes
