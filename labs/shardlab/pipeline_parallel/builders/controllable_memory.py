"""V-Half and V-Min repeat one building block, the path of a microbatch through ZBV's V, every six ticks.

V-Half has about half of 1F1B's activations, and a bubble between those of ZBV and V-Min; V-Min has a third.
Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3.
"""

from collections.abc import Callable

from shardlab.pipeline_parallel.builders.lane import need_sizes
from shardlab.pipeline_parallel.builders.zero_bubble import fill_with_weights
from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule, inputs_of
from shardlab.pipeline_parallel.simulation import simulate

PERIOD = 6  # ticks: F, I and W of two chunks

Lane = dict[int, Action]  # tick -> the rank's action
Block = list[tuple[int, Kind, int]]  # the passes of one microbatch on one rank: tick, kind, stage


def v_half(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up: the stages of ZBV, in another order.

    In both forward and backward, a microbatch takes two ticks per rank on the way down and one on the way up, so it
    lives 6P ticks. A new one enters every 6 ticks, so about P half-size activations are alive, or P+2 with queued W
    (P+1 for odd P). The slow legs leave free ticks at both ends of the step, into which passes are moved.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    return repeated(_block_of_v_half, num_ranks, num_microbatches)


def _block_of_v_half(rank: int, num_ranks: int) -> Block:
    """When one microbatch passes this rank: (tick, kind, stage)."""
    wait = 3 if num_ranks % 2 == 0 else 0  # else F and I of a chunk would be on the same tick of the period
    down, up = rank, 2 * num_ranks - 1 - rank
    return [
        (2 * rank, Kind.F, down),
        (3 * num_ranks - 2 - rank, Kind.F, up),
        (3 * num_ranks - 1 + wait + 2 * rank, Kind.I, up),
        (6 * num_ranks - 2 + wait - rank, Kind.I, down),
    ]


def v_min(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r runs stage r on the way down and stage 2P-1-r on the way up: the stages of ZBV, in another order.

    A microbatch goes F down, F up, I down, I up, one rank per tick, so it lives 4P ticks. A new one enters every 6
    ticks, so about 4P/6 half-size activations are alive, or 2 ceil((P+2)/3) with queued W.
    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, arXiv 2405.15362, section 3 and figure 4.
    """
    need_sizes(num_ranks, num_microbatches)
    return repeated(_block_of_v_min, num_ranks, num_microbatches)


def _block_of_v_min(rank: int, num_ranks: int) -> Block:
    """When one microbatch passes this rank: (tick, kind, stage)."""
    wait = 2 if num_ranks % 3 == 0 else 0  # else F and I of a chunk would be on the same tick of the period
    down, up = rank, 2 * num_ranks - 1 - rank
    return [
        (rank, Kind.F, down),
        (2 * num_ranks - 1 - rank, Kind.F, up),
        (2 * num_ranks + wait + rank, Kind.I, up),
        (4 * num_ranks - 1 + wait - rank, Kind.I, down),
    ]


def repeated(block: Callable[[int, int], Block], num_ranks: int, num_microbatches: int) -> Schedule:
    """Repeat the block of (rank, num_ranks) for every microbatch, compress both ends, and put W where ranks wait.

    No rank holds more than in the steady state. At the end of the step, passes may or may not displace a W; this takes
    the shorter of the two steps.
    """
    lanes = [with_weights(lay_out(block(rank, num_ranks), num_microbatches)) for rank in range(num_ranks)]
    bound = max(max(held_at(lane)) for lane in lanes)
    pull_forward(lanes, bound)
    without = [{tick: action for tick, action in lane.items() if action.kind is not Kind.W} for lane in lanes]
    found = [fill_with_weights([in_order(lane) for lane in without], bound)]
    pull_end(without, bound)
    found.append(fill_with_weights([in_order(lane) for lane in without], bound))
    return min(found, key=lambda schedule: simulate(schedule).makespan)


def lay_out(block: Block, num_microbatches: int) -> Lane:
    """One rank's lane: the passes (tick, kind, stage) of a microbatch, repeated a period later for each next one."""
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
    filled, pending, tick, last = dict(lane), [], 0, max(lane)
    while pending or tick <= last:
        action = lane.get(tick)
        if action is None and pending:
            filled[tick] = pending.pop(0)
        elif action is not None and action.kind is Kind.I:
            pending.append(Action(Kind.W, action.stage, action.microbatch))
        tick += 1
    return filled


def held_at(lane: Lane) -> list[int]:
    """How many activations (held until W) the lane holds at the beginning of each tick, from the first to the end."""
    held = [0]
    for tick in range(max(lane) + 1):
        action = lane.get(tick)
        change = 0 if action is None else (action.kind is Kind.F) - (action.kind is Kind.W)
        held.append(held[-1] + change)
    return held


def pull_forward(lanes: list[Lane], bound: int) -> None:
    """Before and after the steady state, move each action to the earliest free tick that its inputs allow.

    The steady state, in which every tick is used, extends from rank 0's first I of stage 0 to its last F of stage 0.
    No rank may hold more than `bound` activations. The lanes, which include W, are changed in place.
    """
    tick_of = {action: tick for lane in lanes for tick, action in lane.items()}
    steady = range(tick_of[Action(Kind.I, 0, 0)], _last_entry(tick_of) + 1)
    moves = [(tick, rank) for rank, lane in enumerate(lanes) for tick in lane if tick not in steady]
    _pull(lanes, sorted(moves), bound, held_at)


def pull_end(lanes: list[Lane], bound: int) -> None:
    """The same after the steady state, for lanes without W. The W are assumed to run on the remaining ticks."""
    tick_of = {action: tick for lane in lanes for tick, action in lane.items()}
    end = _last_entry(tick_of)
    moves = [(tick, rank) for rank, lane in enumerate(lanes) for tick in lane if tick > end]
    _pull(lanes, sorted(moves), bound, lambda lane: held_at(with_weights(lane)))


def _last_entry(tick_of: dict[Action, int]) -> int:
    """The tick at which the last microbatch enters rank 0."""
    return tick_of[Action(Kind.F, 0, max(action.microbatch for action in tick_of))]


def _pull(lanes: list[Lane], moves: list[tuple[int, int]], bound: int, held_by: Callable[[Lane], list[int]]) -> None:
    """Move the action at each (tick, rank), in order, as early as its inputs, the free ticks and the bound allow.

    held_by: the activations a lane holds at the beginning of each tick. Only moving an F can raise this, because other
    passes free activations earlier.
    """
    tick_of = {action: tick for lane in lanes for tick, action in lane.items()}
    for tick, rank in moves:
        lane = lanes[rank]
        action = lane.pop(tick)
        earliest = max(_after(action, tick_of, stages=2 * len(lanes)), default=0)
        if action.kind is Kind.F and any(place not in lane for place in range(earliest, tick)):
            held = held_by(lane)
            full = (place for place in range(min(tick, len(held) - 1), earliest - 1, -1) if held[place] >= bound)
            earliest = next(full, earliest - 1) + 1
        place = next((place for place in range(earliest, tick) if place not in lane), tick)
        lane[place], tick_of[action] = action, place


def _after(action: Action, tick_of: dict[Action, int], stages: int) -> list[int]:
    """The ticks after each input, and after the same pass of the previous microbatch."""
    needed = inputs_of(action, stages)
    if action.microbatch > 0:
        needed.append(Action(action.kind, action.stage, action.microbatch - 1))
    return [tick_of[need] + 1 for need in needed]
