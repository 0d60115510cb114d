"""Different: chooses one size after the other."""


def layouts(num_gpus, gpus_per_server, num_layers, num_heads, sequences, microbatches):
    limits = [(gpus_per_server, num_heads), (num_layers,), (sequences,)]

    def choose(left, sizes):
        if len(sizes) == 2:
            sizes = (*sizes, left)
            return [(*sizes, b) for b in microbatches if sequences % (left * b) == 0]
        allowed = [d for d in range(1, left + 1) if left % d == 0 and all(n % d == 0 for n in limits[len(sizes)])]
        return [one for d in allowed for one in choose(left // d, (*sizes, d))]

    return choose(num_gpus, ())
