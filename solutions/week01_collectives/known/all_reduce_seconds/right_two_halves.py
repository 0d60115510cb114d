"""Different: one function per half and per algorithm, levels from bit_length."""


def ring_half(num_ranks, num_bytes, alpha, beta):
    return (num_ranks - 1) * (alpha + num_bytes * beta / num_ranks)


def tree_half(num_ranks, num_bytes, alpha, beta):
    return (num_ranks - 1).bit_length() * (alpha + num_bytes * beta)


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    match algorithm:
        case "ring":
            return 2 * ring_half(num_ranks, num_bytes, alpha, beta)
        case "tree":
            return 2 * tree_half(num_ranks, num_bytes, alpha, beta)
    raise ValueError(f'algorithm is "ring" or "tree", not {algorithm!r}')
