"""Different: loops that append, and tuples."""


def gpipe(num_ranks, num_microbatches):
    schedule = []
    for rank in range(num_ranks):
        mine = []
        for letter in ("F", "B"):
            for microbatch in range(num_microbatches):
                mine.append(str(rank) + letter + str(microbatch))
        schedule.append(tuple(mine))
    return tuple(schedule)
