"""Zero-bubble schedules split the backward and put weight gradients, W, where a rank would wait.

Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241.
"""

from collections import deque
from collections.abc import Sequence

from shardlab.pipeline_parallel.builders.lane import Lane, need_sizes
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


def zb_h1(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: P-1-r forwards, then F I. From the r-th pair on, each pair is followed by the W of r
    microbatches earlier.

    The later a rank's stage, the later its first W. Rank r keeps r of them for the end, when it waits for no other
    rank. At F = I = W each rank idles P-1 units, a third of 1F1B's 3(P-1), with P activations (until W).
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, figure 3 and section 2.
    """
    need_sizes(num_ranks, num_microbatches)
    return [_rank_of_zb_h1(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _rank_of_zb_h1(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    lane = Lane({rank: range(num_microbatches)})
    for _ in range(num_ranks - 1 - rank):  # warm up
        lane.forward(rank)
    for pair in range(num_microbatches):  # F I W, then I W once the forwards are done
        lane.forward(rank)
        lane.input_gradient(rank)
        if pair >= rank:
            lane.weight_gradient()
    while lane.weights_left():
        lane.weight_gradient()
    return lane.slots


def zb_h2(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r: 2(P-1-r) forwards, then F I. From the 2r-th pair on, each pair is followed by the W of 2r
    microbatches earlier, and every I without an F is also followed by a W.

    At F = I = W and M >= 2P-1 no rank idles within its own span, and it holds 2P-1 activations until W. By makespan,
    P-1 idle units remain, because the ranks begin one after another.
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, figure 3, the lower half.
    """
    need_sizes(num_ranks, num_microbatches)
    return [_rank_of_zb_h2(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _rank_of_zb_h2(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    lane = Lane({rank: range(num_microbatches)})
    for _ in range(2 * (num_ranks - 1 - rank)):
        lane.forward(rank)
    for pair in range(num_microbatches):
        alone = not lane.forwards_left(rank)
        lane.forward(rank)
        lane.input_gradient(rank)
        if pair >= 2 * rank or alone:
            lane.weight_gradient()
    while lane.weights_left():
        lane.weight_gradient()
    return lane.slots


def zbv(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up. W are placed where a rank would wait.

    At F = I = W and M >= 2P no rank idles within its own span, with 2P half-size activations, the memory of 1F1B.
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, arXiv 2401.10241, section 6, figure 7.
    """
    need_sizes(num_ranks, num_microbatches)
    core = [_rank_of_zbv(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]
    return fill_with_weights(core, max_activations=2 * num_ranks)


def _rank_of_zbv(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    down, up = rank, 2 * num_ranks - 1 - rank
    to_turn = num_ranks - 1 - rank  # hops to the turn of the V
    lane = Lane({down: range(num_microbatches), up: range(num_microbatches)})

    for _ in range(2 * to_turn + 1):  # F down
        lane.forward(down)
    for _ in range(rank):  # F up, F down: microbatches return from the turn
        lane.forward(up)
        lane.forward(down)
    for _ in range(to_turn + 1):  # F I up
        lane.forward(up)
        lane.input_gradient(up)
    for _ in range(num_microbatches):  # steady: F I down, F I up
        lane.forward(down)
        lane.input_gradient(down)
        lane.forward(up)
        lane.input_gradient(up)
    return lane.slots
