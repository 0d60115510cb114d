"""Check that messages are legal: their order and deadlocks, as strictly as any real network."""

from collections import defaultdict
from collections.abc import Callable

from shardlab.pipeline_parallel.communication import Message, MessageBatch, Program
from shardlab.pipeline_parallel.schedule import Action, actions_of, inputs_of, result_of


def check_messages(program: Program, *, rendezvous: bool = True) -> None:
    """Raise ValueError listing everything that is wrong with the messages of a program, or return None."""
    if wrong := message_problems(program, rendezvous=rendezvous):
        raise ValueError("\n".join(wrong))


def message_problems(program: Program, *, rendezvous: bool = True) -> list[str]:
    """Sentences about messages that are out of order, unmatched, missing, or waiting for each other in a cycle.

    rendezvous: a send waits until its receive is posted, and a rank waits at each batch until all of it is done. A
    program without problems then runs on any transport. Without rendezvous, a rank waits only where a slot uses a
    message, as on gloo.
    """
    return _out_of_order(program) or _play(program, rendezvous)


def _out_of_order(program: Program) -> list[str]:
    """FIFO for each pair and direction: the k-th send must be the k-th receive."""
    sent, received = defaultdict(list), defaultdict(list)
    for rank, steps in enumerate(program):
        for place, step in enumerate(steps):
            for message in step.messages if isinstance(step, MessageBatch) else ():
                if rank not in (message.source, message.destination):
                    return [
                        f"rank {rank}, step {place}: {message} does not involve this rank: "
                        f"move it to rank {message.source}"
                    ]
                side = sent if message.source == rank else received
                side[message.source, message.destination].append((place, message))
    wrong = []
    for pair in sorted({*sent, *received}):
        source, destination = pair
        for count, (send, receive) in enumerate(zip(sent[pair], received[pair], strict=False)):
            if send[1] != receive[1]:
                wrong.append(
                    f"message {count} from rank {source} to rank {destination}: rank {source}, step {send[0]}, sends "
                    f"{send[1].result}, but rank {destination}, step {receive[0]}, takes it for {receive[1].result}: "
                    "list both in the same order, because messages match only by order"
                )
                break
        else:
            wrong += _unmatched(sent[pair], received[pair])
    return wrong


def _unmatched(sent: list[tuple[int, Message]], received: list[tuple[int, Message]]) -> list[str]:
    for place, message in sent[len(received) :]:
        return [
            f"rank {message.source}, step {place}, sends {message.result} to rank {message.destination}, which never "
            "receives it: add the receive or remove the send"
        ]
    for place, message in received[len(sent) :]:
        return [
            f"rank {message.destination}, step {place}, waits for {message.result} from rank {message.source}, which "
            "never sends it: add the send"
        ]
    return []


def _play(program: Program, rendezvous: bool) -> list[str]:
    """Run every rank until all have finished or none can continue."""
    slots = (step for steps in program for step in steps if not isinstance(step, MessageBatch))
    stages = 1 + max(action.stage for slot in slots for action in actions_of(slot))
    at = [0] * len(program)
    computed: list[set[Action]] = [set() for _ in program]
    arriving: list[dict[Action, Message]] = [{} for _ in program]  # each rank's receives so far
    leaving: set[Message] = set()  # the sends of all ranks so far

    def is_through(message: Message) -> bool:
        return message in leaving and message.result in arriving[message.destination]

    def post(rank: int, batch: MessageBatch) -> None:
        for message in batch.messages:
            if message.destination == rank:
                arriving[rank][message.result] = message
            elif message.result in computed[rank]:
                leaving.add(message)
            else:
                raise ValueError(f"rank {rank}, step {at[rank]}, sends {message.result}: compute it first")

    def has(rank: int, need: Action) -> bool:
        """Whether an input has arrived; False while it is in transit. Raises ValueError if it was never received."""
        if need in computed[rank]:
            return True
        if need not in arriving[rank]:
            raise ValueError(
                f"rank {rank}, step {at[rank]} ({program[rank][at[rank]]}) needs {need}, which was neither computed "
                "nor received before: receive it first"
            )
        return is_through(arriving[rank][need])

    def advance(rank: int) -> bool:
        """Run this rank's step if possible."""
        step = program[rank][at[rank]]
        if isinstance(step, MessageBatch):
            post(rank, step)
            if rendezvous and not all(map(is_through, step.messages)):
                return False
        else:
            if not all(has(rank, need) for action in actions_of(step) for need in inputs_of(action, stages)):
                return False
            computed[rank].update(filter(None, map(result_of, actions_of(step))))
        at[rank] += 1
        return True

    try:
        moved = True
        while moved:
            moved = False
            for rank, steps in enumerate(program):
                while at[rank] < len(steps) and advance(rank):
                    moved = True
    except ValueError as wrong:
        return [str(wrong)]
    waiting = [_waits(program, at, rank, is_through) for rank, steps in enumerate(program) if at[rank] < len(steps)]
    if not waiting:
        return []
    remedy = "a send waits for its receive, so post messages that cross in one batch, or receive first"
    return [f"{'; '.join(waiting)}: {remedy}"]


def _waits(program: Program, at: list[int], rank: int, is_through: Callable[[Message], bool]) -> str:
    """Why a rank cannot continue."""
    step = program[rank][at[rank]]
    if not isinstance(step, MessageBatch):
        return f"rank {rank}, step {at[rank]} ({step}), waits for a message that was not sent"
    message = next(message for message in step.messages if not is_through(message))
    other = message.source + message.destination - rank
    does = "sends" if message.source == rank else "receives"
    return f"rank {rank}, step {at[rank]}, {does} {message}, but rank {other} is at step {at[other]}"
