"""Different: tries limits of time, each stage as long as it can be."""


def cut(layers, num_stages, num_microbatches, limit_bytes):
    def filled(most):
        sizes, place = [], 0
        for stage in range(num_stages):
            in_flight, seconds, held, size = min(num_stages - stage, num_microbatches), 0, 0, 0
            while place + size < len(layers) - (num_stages - stage - 1):
                s, p, a = layers[place + size]
                if seconds + s > most or held + p + in_flight * a > limit_bytes:
                    break
                seconds, held, size = seconds + s, held + p + in_flight * a, size + 1
            sizes.append(size)
            place += size
        return sizes if place == len(layers) and min(sizes) > 0 else None

    low, high = 0, sum(layer[0] for layer in layers)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if filled(middle) else (middle + 1, high)
    return filled(low)
