"""Different: gives every slot the time at which it would begin and sorts."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        held = num_ranks - rank
        order = [(2 * (m - held) + 1 if m >= held else m - 1000, f"{rank}F{m}") for m in range(num_microbatches)]
        order += [(2 * m, f"{rank}B{m}") for m in range(num_microbatches)]
        schedule.append([slot for _, slot in sorted(order)])
    return schedule
