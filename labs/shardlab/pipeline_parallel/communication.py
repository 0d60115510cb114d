"""Put the messages into a schedule: what each rank sends and receives between its slots, as data again.

Messages between two ranks carry no name: the k-th that one sends is the k-th that the other receives. So both must list
them in one order, whatever the order in which they are used. The order here is that of a simulation.
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
    """The result of one action on its way to the rank that needs it: an activation (F) or its gradient (I)."""

    result: Action
    source: int
    destination: int

    @property
    def user(self) -> Action:
        """The neighbouring stage's pass that waits for it."""
        user = user_of(self.result, stages=self.result.stage + 2)  # who sends to it knows that no end is there
        assert user is not None
        return user

    def __str__(self) -> str:
        return f"{self.result} from rank {self.source} to rank {self.destination}"


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages that a rank posts together, before it waits for any: sends and receives, in order."""

    messages: tuple[Message, ...]

    def __str__(self) -> str:
        return "[" + ", ".join(str(message) for message in self.messages) + "]"


Program = list[list[Slot | MessageBatch]]  # program[rank] = slots and batches, in order


def homes_of(schedule: Schedule) -> dict[Action, int]:
    """The rank on which each result is computed."""
    found = ((result_of(a), rank) for rank, slots in enumerate(schedule) for slot in slots for a in actions_of(slot))
    return {result: rank for result, rank in found if result is not None}


def communicate(schedule: Schedule, durations: Durations | None = None) -> Program:
    """Each message is sent when its slot has ended, and its receive posted before the receiver's next slot.

    "Next" is by a simulation with `durations`, None for equal ones and the same on every rank. So all ranks list their
    messages in the order of one clock: no order of waiting can then close a circle, even when a send waits for its
    receive. Messages at the same place of a rank are one batch: two neighbours that exchange at the same time do not
    wait for each other in turn.
    Raises ValueError when the schedule cannot be run.
    """
    timeline = simulate(schedule, durations)
    stages, homes = num_stages(schedule), homes_of(schedule)

    posts: list[tuple[float, int, int, Message]] = []  # when, from whom, after which of its slots, what
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
    """The same steps of one rank, every receive posted `num_slots` slots earlier: the message finds its buffer ready.

    Messages match by order alone, so a rank keeps the order of its sends, and of its receives from each neighbor.
    The order of a send among receives changes, so this is for transports on which a rank need not wait for a receive
    that it has posted: gloo, not NCCL.
    A gradient's buffer is not posted before the forward whose output it is shaped like. At one place the sends are
    first: somebody waits for them, and nobody yet for a receive that is early.
    """
    slots = [step for step in steps if not isinstance(step, MessageBatch)]
    after = {action: place + 1 for place, slot in enumerate(slots) for action in actions_of(slot)}
    sends: list[list[Message]] = [[] for _ in range(len(slots) + 1)]  # before each slot, and after the last
    receives: list[list[Message]] = [[] for _ in sends]
    latest: dict[int, int] = {}  # where the latest receive from each neighbor is posted
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
