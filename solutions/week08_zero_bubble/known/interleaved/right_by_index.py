"""Different: works out stage and microbatch of the k-th forward by division, in one loop."""


def interleaved(num_ranks, num_microbatches, num_chunks):
    def slot(letter, rank, count):
        group, inside = divmod(count, num_ranks * num_chunks)
        chunk, microbatch = divmod(inside, num_ranks)
        if letter == "B":
            chunk = num_chunks - 1 - chunk
        return f"{rank + chunk * num_ranks}{letter}{group * num_ranks + microbatch}"

    total = num_microbatches * num_chunks
    schedule = [[] for _ in range(num_ranks)]
    for rank, slots in enumerate(schedule):
        ahead = min(total, (num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank))
        for count in range(total + ahead):
            if count < total:
                slots.append(slot("F", rank, count))
            if count >= ahead:
                slots.append(slot("B", rank, count - ahead))
    return schedule
