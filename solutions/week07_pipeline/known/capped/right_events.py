"""Different: a heap of events, each rank chooses when something has arrived."""

import heapq


def capped(num_ranks, num_microbatches, max_activations):
    schedule = [[] for _ in range(num_ranks)]
    waiting = [{"F": [], "B": []} for _ in range(num_ranks)]
    held, busy_until = [0] * num_ranks, [0] * num_ranks
    waiting[0]["F"] = list(range(num_microbatches))
    events = [(0, rank, "", 0) for rank in range(num_ranks)]
    while events:
        now = events[0][0]
        ranks = set()
        while events and events[0][0] == now:  # all that arrives at one time, before anybody chooses
            _, rank, kind, microbatch = heapq.heappop(events)
            ranks.add(rank)
            if kind:
                waiting[rank][kind].append(microbatch)
        for rank in sorted(ranks):
            if busy_until[rank] > now:
                continue
            if waiting[rank]["B"]:
                kind, seconds = "B", 2
            elif waiting[rank]["F"] and held[rank] < max_activations:
                kind, seconds = "F", 1
            else:
                continue
            microbatch = waiting[rank][kind].pop(0)
            held[rank] += 1 if kind == "F" else -1
            busy_until[rank] = now + seconds
            schedule[rank].append(f"{rank}{kind}{microbatch}")
            heapq.heappush(events, (now + seconds, rank, "", 0))
            if kind == "F" and rank == num_ranks - 1:
                heapq.heappush(events, (now + seconds, rank, "B", microbatch))
            elif kind == "F":
                heapq.heappush(events, (now + seconds, rank + 1, "F", microbatch))
            elif rank > 0:
                heapq.heappush(events, (now + seconds, rank - 1, "B", microbatch))
    return schedule
