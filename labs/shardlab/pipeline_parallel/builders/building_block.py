"""Schedules that repeat one building block: a microbatch on its way through the V, laid out every six ticks.

Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3.
"""

from shardlab.pipeline_parallel.schedule import Action, Kind, inputs_of

PERIOD = 6  # ticks: F, I and W of two chunks

Lane = dict[int, Action]  # tick -> what a rank does in it


def lay_out(block: list[tuple[int, Kind, int]], num_microbatches: int) -> Lane:
    """One rank's lane: its passes (tick, kind, stage) of a microbatch, again for the next one a period later."""
    return {
        tick + PERIOD * microbatch: Action(kind, stage, microbatch)
        for microbatch in range(num_microbatches)
        for tick, kind, stage in block
    }


def in_order(lane: Lane) -> list[Action]:
    """The actions of a lane without their ticks."""
    return [lane[tick] for tick in sorted(lane)]


def with_weights(lane: Lane) -> Lane:
    """The lane with each W on the first free tick after its I, the oldest first."""
    filled, pending, tick = dict(lane), [], 0
    while pending or tick <= max(lane):
        action = lane.get(tick)
        if action is None and pending:
            filled[tick] = pending.pop(0)
        elif action is not None and action.kind is Kind.I:
            pending.append(Action(Kind.W, action.stage, action.microbatch))
        tick += 1
    return filled


def most_held(lane: Lane, begin: int = 0, end: int | None = None) -> int:
    """The most activations that the lane holds at ticks from `begin` to `end`, until W."""
    held, most = 0, 0
    for tick in sorted(lane):
        if end is not None and tick >= end:
            break
        if tick >= begin:
            most = max(most, held)
        held += (lane[tick].kind is Kind.F) - (lane[tick].kind is Kind.W)
    return max(most, held)


def pull_forward(lanes: list[Lane], bound: int) -> None:
    """Before and after the steady state, move each action to the earliest free tick that its inputs allow.

    The steady state goes from rank 0's first I of the last chunk to its last F of the first: there every tick is used.
    No rank may hold more than `bound` activations. The lanes are changed.
    """
    tick_of = {action: tick for lane in lanes for tick, action in lane.items()}
    last = max(action.microbatch for action in tick_of)
    steady = range(tick_of[Action(Kind.I, 0, 0)], tick_of[Action(Kind.F, 0, last)] + 1)
    moves = sorted((tick, rank) for rank, lane in enumerate(lanes) for tick in lane if tick not in steady)
    for tick, rank in moves:
        lane = lanes[rank]
        action = lane.pop(tick)
        earliest = max(_after(action, tick_of, stages=2 * len(lanes)), default=0)
        free = (place for place in range(earliest, tick + 1) if place not in lane)
        place = next(p for p in free if p == tick or _has_room(lane, action, p, tick, bound))
        lane[place], tick_of[action] = action, place


def _after(action: Action, tick_of: dict[Action, int], stages: int) -> list[int]:
    """The ticks after each input, and after the same pass of the microbatch before."""
    needed = inputs_of(action, stages)
    if action.microbatch > 0:
        needed.append(Action(action.kind, action.stage, action.microbatch - 1))
    return [tick_of[need] + 1 for need in needed]


def _has_room(lane: Lane, action: Action, begin: int, end: int, bound: int) -> bool:
    """An F holds its activations from its new tick on; other passes only free them earlier."""
    return action.kind is not Kind.F or most_held(lane, begin, end) < bound
