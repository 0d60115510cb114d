"""A greedy schedule for any durations and memory bound: a free rank takes the best action available."""

from collections.abc import Sequence
from heapq import heappop, heappush

from shardlab.pipeline_parallel.builders.lane import need_sizes
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule


def greedy(
    num_ranks: int,
    num_microbatches: int,
    durations: Durations | None = None,
    max_activations: int | Sequence[int] | None = None,
) -> Schedule:
    """Rank r runs stage r. A free rank runs an I if one is ready, else an F if it has room, else a W, else it waits.

    I comes first, because other ranks wait for it and it leads to freed memory. W comes last, because no rank waits for
    it. A rank at its bound runs a W before its next F. Greedy is not optimal, since a W that has started may delay an I
    (4 ranks, 8 microbatches, P activations: 29 units, ZB-H1 27; with 2P activations 27, like ZB-H2).

    max_activations: held until W, for all ranks or a list; None means P, the memory of 1F1B.
    Raises ValueError for a bound below 1.
    """
    need_sizes(num_ranks, num_microbatches)
    durations = durations or Durations()
    given = num_ranks if max_activations is None else max_activations
    bounds = [given] * num_ranks if isinstance(given, int) else list(given)
    if len(bounds) != num_ranks or min(bounds) < 1:
        raise ValueError(f"bounds of {bounds} activations: give one number, or {num_ranks} numbers, each 1 or more")

    schedule: Schedule = [[] for _ in range(num_ranks)]
    done = [dict.fromkeys("FIW", 0) for _ in range(num_ranks)]  # by rank: passes begun, in order of microbatches
    arrivals: list[dict[str, list[float]]] = [{"F": [], "I": []} for _ in range(num_ranks)]  # when inputs arrive
    arrivals[0]["F"] = [0.0] * num_microbatches
    wake_ups = [(0.0, rank) for rank in range(num_ranks)]
    free_at = [0.0] * num_ranks

    def choose(rank: int, now: float) -> Kind | None:
        mine, here = done[rank], arrivals[rank]
        if mine["I"] < len(here["I"]) and here["I"][mine["I"]] <= now:
            return Kind.I
        has_room = mine["F"] - mine["W"] < bounds[rank]
        if has_room and mine["F"] < len(here["F"]) and here["F"][mine["F"]] <= now:
            return Kind.F
        return Kind.W if mine["W"] < mine["I"] else None

    while wake_ups:
        now, rank = heappop(wake_ups)
        kind = choose(rank, now) if free_at[rank] <= now else None
        if kind is None:
            continue
        schedule[rank].append(Action(kind, rank, done[rank][kind]))
        done[rank][kind] += 1
        end = free_at[rank] = now + durations.of_action(kind, rank)
        heappush(wake_ups, (end, rank))

        for waiting, arrives in _who_waits(kind, rank, num_ranks, end, durations.message):
            arrivals[waiting][kind if waiting != rank else Kind.I].append(arrives)
            heappush(wake_ups, (arrives, waiting))
    return schedule


def _who_waits(kind: Kind, rank: int, num_ranks: int, end: float, message: float) -> list[tuple[int, float]]:
    """The ranks that wait for a result, and when it arrives. On the last rank, its own F makes an I ready."""
    if kind is Kind.W or (kind is Kind.I and rank == 0):
        return []
    if kind is Kind.I:
        return [(rank - 1, end + message)]
    return [(rank + 1, end + message)] if rank + 1 < num_ranks else [(rank, end)]
