"""Different: passes have ticks of their own, and each rank sorts its passes by them."""


def zb_h1(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        ahead = num_ranks - 1 - rank
        timed = []
        for m in range(num_microbatches):
            timed.append((max(0, m - ahead), 0, m, f"{rank}F{m}"))
            timed.append((m, 1, m, f"{rank}I{m}"))
            timed.append((m + rank if m + rank < num_microbatches else num_microbatches, 2, m, f"{rank}W{m}"))
        schedule.append([text for *_, text in sorted(timed)])
    return schedule
