"""Put every weight gradient where its rank would otherwise wait."""

from collections import deque
from collections.abc import Sequence

from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule, Slot, inputs_of, num_stages


def fill_with_weights(core: Sequence[Sequence[Slot]], max_activations: int) -> Schedule:
    """Simulate F and I with equal ticks in the given order, and run the oldest W whenever a rank would have to wait.

    core: F and I only. max_activations: a rank at this bound (counted until W) runs a W before its next F.
    Raises ValueError if the order of `core` cannot be run within the bound.
    """
    stages = num_stages([list(slots) for slots in core])
    todo = [deque(slots) for slots in core]
    pending: list[deque[Slot]] = [deque() for _ in core]
    held = [0] * len(core)
    finished: set[Action] = set()
    filled: Schedule = [[] for _ in core]

    def choose(rank: int) -> Slot | None:
        """The next core action if it can run, otherwise a W, otherwise None."""
        following = todo[rank][0] if todo[rank] else None
        room = not (isinstance(following, Action) and following.kind is Kind.F and held[rank] == max_activations)
        if isinstance(following, Action) and room and finished.issuperset(inputs_of(following, stages)):
            return todo[rank].popleft()
        return pending[rank].popleft() if pending[rank] else None

    while any(todo) or any(pending):
        tick = [choose(rank) for rank in range(len(core))]
        if not any(tick):
            raise ValueError(f"this order needs more than {max_activations} activations on a rank: allow more")
        for rank, action in enumerate(tick):
            if not isinstance(action, Action):
                continue
            filled[rank].append(action)
            finished.add(action)
            held[rank] += (action.kind is Kind.F) - (action.kind is Kind.W)
            if action.kind is Kind.I:
                pending[rank].append(Action(Kind.W, action.stage, action.microbatch))
    return filled
