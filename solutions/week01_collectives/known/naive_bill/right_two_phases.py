"""Different: gather and send-back are counted apart and added."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    received = (num_ranks - 1) * num_bytes
    sent = (num_ranks - 1) * num_bytes
    return (num_ranks - 1) + (num_ranks - 1), received + sent
