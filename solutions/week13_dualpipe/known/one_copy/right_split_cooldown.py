"""Different: one counter for both directions, and a B that has no partner is split into I and W."""


def overlapped_1f1b(num_ranks, num_microbatches):
    ranks = [[] for _ in range(num_ranks)]
    for rank, slots in enumerate(ranks):
        lead = 2 * (num_ranks - rank) - 1
        for tick in range(num_microbatches + lead):
            forward, backward = tick, tick - lead
            if forward >= num_microbatches:
                if backward >= 0:
                    slots += [f"{rank}I{backward}", f"{rank}W{backward}"]
            elif backward < 0:
                slots.append(f"{rank}F{forward}")
            else:
                slots.append(f"({rank}F{forward};{rank}B{backward})OVERLAP_F_B")
    return ranks
