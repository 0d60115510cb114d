"""Different: as the page solves it."""


def layouts(num_gpus, gpus_per_server, num_layers, num_heads, sequences, microbatches):
    found = []
    for tp in range(1, gpus_per_server + 1):
        for pp in range(1, num_layers + 1):
            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
                continue
            dp = num_gpus // (tp * pp)
            found += [(tp, pp, dp, b) for b in microbatches if sequences % (dp * b) == 0]
    return found
