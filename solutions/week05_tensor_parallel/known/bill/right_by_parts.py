"""Different: a reduce-scatter and an all-gather, added up."""


def tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary):
    share = (num_ranks - 1) / num_ranks

    def all_reduce(num_bytes):
        return share * num_bytes + share * num_bytes

    activation = batch * sequence * hidden * 2
    layer = sum(all_reduce(activation) for _ in range(4))
    three = sum(all_reduce(4 * batch * sequence) for _ in range(3))
    return [layer, three, share * batch * sequence * vocabulary * 2]
