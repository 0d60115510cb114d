"""Different: walks through time one unit after the other."""


def capped(num_ranks, num_microbatches, max_activations):
    schedule, done = [[] for _ in range(num_ranks)], {}
    free, counts = [0] * num_ranks, [[0, 0] for _ in range(num_ranks)]
    now = 0
    while any(backwards < num_microbatches for _, backwards in counts):
        for rank, (forwards, backwards) in enumerate(counts):
            if free[rank] > now:
                continue
            behind, before = f"{rank + 1}B{backwards}", f"{rank - 1}F{forwards}"
            is_ready = rank == num_ranks - 1 or done.get(behind, now + 1) <= now
            has_input = rank == 0 or done.get(before, now + 1) <= now
            if backwards < forwards and is_ready:
                text, seconds, place = f"{rank}B{backwards}", 2, 1
            elif forwards < num_microbatches and forwards - backwards < max_activations and has_input:
                text, seconds, place = f"{rank}F{forwards}", 1, 0
            else:
                continue
            counts[rank][place] += 1
            done[text] = free[rank] = now + seconds
            schedule[rank].append(text)
        now += 1
    return schedule
