"""Insert messages into a schedule: what each rank sends and receives between its slots, again as data.

Messages between two ranks carry no name: the k-th one sent is the k-th one received. So both ranks must list them in
the same order, even if they are used in another order. Here the order comes from a simulation.
"""

from bisect import bisect_left
from dataclasses import dataclass

from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import (
    Action,
    Kind,
    Schedule,
    Slot,
    actions_of,
    num_stages,
    result_of,
    user_of,
)
from shardlab.pipeline_parallel.simulation import simulate


@dataclass(frozen=True, slots=True)
class Message:
    """The result of one action, sent to the rank that needs it: an activation (F) or its gradient (I)."""

    result: Action
    source: int
    destination: int

    @property
    def user(self) -> Action:
        """The neighboring stage's pass that waits for it."""
        user = user_of(self.result, stages=self.result.stage + 2)  # a message is never sent past the last stage
        assert user is not None
        return user

    def __str__(self) -> str:
        return f"{self.result} from rank {self.source} to rank {self.destination}"


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Sends and receives that a rank posts together, in order, before it waits for any of them."""

    messages: tuple[Message, ...]

    def __str__(self) -> str:
        return "[" + ", ".join(str(message) for message in self.messages) + "]"


Program = list[list[Slot | MessageBatch]]  # program[rank] = slots and batches, in order


def homes_of(schedule: Schedule) -> dict[Action, int]:
    """The rank on which each result is computed."""
    found = ((result_of(a), rank) for rank, slots in enumerate(schedule) for slot in slots for a in actions_of(slot))
    return {result: rank for result, rank in found if result is not None}


def communicate(schedule: Schedule, durations: Durations | None = None) -> Program:
    """Send each message when its slot has ended, and post its receive before the receiver's next slot.

    "Next" is determined by a simulation with `durations` (the same on every rank; None means equal ones). All ranks
    therefore list their messages in the order of one clock, so ranks can never wait for each other in a cycle, even if
    a send waits for its receive. Messages at the same point on a rank form one batch, so that two neighbors that
    exchange at the same time do not wait for each other in turn.
    Raises ValueError if the schedule cannot be run.
    """
    timeline = simulate(schedule, durations)
    stages, homes = num_stages(schedule), homes_of(schedule)

    posts: list[tuple[float, int, int, Message]] = []  # time, source, its slot, message
    for source, slots in enumerate(schedule):
        for place, slot in enumerate(slots):
            for result in filter(None, map(result_of, actions_of(slot))):
                user = user_of(result, stages)
                if user is not None and homes[user] != source:
                    message = Message(result, source, homes[user])
                    posts.append((timeline.ends[source][place], source, place, message))
    posts.sort(key=lambda post: post[:3])

    batches: list[dict[int, list[Message]]] = [{} for _ in schedule]  # by rank: the messages before each slot
    for end, source, place, message in posts:
        receiver = message.destination
        batches[source].setdefault(place + 1, []).append(message)
        batches[receiver].setdefault(bisect_left(timeline.begins[receiver], end), []).append(message)
    return [_woven(slots, before) for slots, before in zip(schedule, batches, strict=True)]


def _woven(slots: list[Slot], before: dict[int, list[Message]]) -> list[Slot | MessageBatch]:
    woven: list[Slot | MessageBatch] = []
    for place in range(len(slots) + 1):
        if place in before:
            woven.append(MessageBatch(tuple(before[place])))
        woven.extend(slots[place : place + 1])
    return woven


def receive_early(steps: list[Slot | MessageBatch], rank: int, *, num_slots: int) -> list[Slot | MessageBatch]:
    """The same steps of one rank, with each receive posted `num_slots` slots earlier so that its buffer is ready.

    Messages match only by order, so a rank keeps the order of its sends, and of its receives from each neighbor. The
    order of sends relative to receives changes, so this is only for transports on which a rank need not wait for a
    receive that it has posted: gloo, not NCCL.
    A gradient's buffer is not posted before the forward whose output determines its shape. Within a batch, sends come
    first, because another rank waits for them, whereas no slot needs an early receive yet.
    """
    slots = [step for step in steps if not isinstance(step, MessageBatch)]
    after = {action: place + 1 for place, slot in enumerate(slots) for action in actions_of(slot)}
    sends: list[list[Message]] = [[] for _ in range(len(slots) + 1)]  # before each slot, and after the last
    receives: list[list[Message]] = [[] for _ in sends]
    latest: dict[int, int] = {}  # slot of the latest receive from each neighbor
    here = 0
    for step in steps:
        if not isinstance(step, MessageBatch):
            here += 1
            continue
        for message in step.messages:
            if message.source == rank:
                sends[here].append(message)
                continue
            result, source = message.result, message.source
            shaped = 0 if result.kind is Kind.F else after[Action(Kind.F, message.user.stage, result.microbatch)]
            latest[source] = max(here - num_slots, shaped, latest.get(source, 0))
            receives[latest[source]].append(message)
    batches = enumerate(zip(sends, receives, strict=True))
    return _woven(slots, {place: [*first, *then] for place, (first, then) in batches if first or then})
