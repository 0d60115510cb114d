"""Different: appends a forward as long as fewer than P-r are held, else a backward."""


def one_f_one_b(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        mine, forwards, backwards = [], 0, 0
        while backwards < num_microbatches:
            if forwards < num_microbatches and forwards - backwards < num_ranks - rank:
                mine.append(f"{rank}F{forwards}")
                forwards += 1
            else:
                mine.append(f"{rank}B{backwards}")
                backwards += 1
        schedule.append(mine)
    return schedule
