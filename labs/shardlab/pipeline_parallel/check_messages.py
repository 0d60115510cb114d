"""Are these messages legal? Order and deadlock, judged as strictly as a real network may be."""

from collections import defaultdict

from shardlab.pipeline_parallel.communication import Message, MessageBatch, Program
from shardlab.pipeline_parallel.schedule import Action, actions_of, inputs_of, result_of


def check_messages(program: Program) -> None:
    """Raise ValueError with all that is wrong with the messages of a program; return None when nothing is."""
    if wrong := message_problems(program):
        raise ValueError("\n".join(wrong))


def message_problems(program: Program) -> list[str]:
    """Sentences on messages out of order, without a partner, missing, or waiting for each other in a circle.

    A send waits until its receive is posted (a rendezvous), and a rank waits at each batch until all of it is through.
    What passes here runs on any transport.
    """
    return _out_of_order(program) or _rendezvous(program)


def _out_of_order(program: Program) -> list[str]:
    """FIFO for each pair and direction: the k-th send must be the k-th receive."""
    sent, received = defaultdict(list), defaultdict(list)
    for rank, steps in enumerate(program):
        for place, step in enumerate(steps):
            for message in step.messages if isinstance(step, MessageBatch) else ():
                if rank not in (message.source, message.destination):
                    return [
                        f"rank {rank}, step {place}: {message} is not for this rank: move it to rank {message.source}"
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
                    "list both in one order, messages match by order alone"
                )
                break
        else:
            wrong += _unmatched(sent[pair], received[pair])
    return wrong


def _unmatched(sent: list[tuple[int, Message]], received: list[tuple[int, Message]]) -> list[str]:
    for place, message in sent[len(received) :]:
        return [
            f"rank {message.source}, step {place}, sends {message.result} to rank {message.destination}, which never "
            "receives it: add the receive or leave the send out"
        ]
    for place, message in received[len(sent) :]:
        return [
            f"rank {message.destination}, step {place}, waits for {message.result} from rank {message.source}, which "
            "never sends it: add the send"
        ]
    return []


def _rendezvous(program: Program) -> list[str]:
    """Run every rank until all are through or none can move."""
    slots = (step for steps in program for step in steps if not isinstance(step, MessageBatch))
    stages = 1 + max(action.stage for slot in slots for action in actions_of(slot))
    at = [0] * len(program)
    has: list[set[Action]] = [set() for _ in program]  # the results on each rank: computed there or received
    through: set[Message] = set()

    def posted(rank: int) -> tuple[Message, ...]:
        step = program[rank][at[rank]] if at[rank] < len(program[rank]) else None
        return step.messages if isinstance(step, MessageBatch) else ()

    def advance(rank: int) -> bool:
        """Do this rank's step if it can be done. Raises ValueError for an input that nobody has brought."""
        step = program[rank][at[rank]]
        if isinstance(step, MessageBatch):
            for message in step.messages:
                other = message.source + message.destination - rank
                if message not in through and message in posted(other):
                    through.add(message)
            if not through.issuperset(step.messages):
                return False
            has[rank].update(message.result for message in step.messages if message.destination == rank)
        else:
            for action in actions_of(step):
                missing = [need for need in inputs_of(action, stages) if need not in has[rank]]
                if missing:
                    raise ValueError(
                        f"rank {rank}, step {at[rank]} ({step}) needs {missing[0]}, which is neither computed nor "
                        "received before: receive it first"
                    )
            has[rank].update(filter(None, map(result_of, actions_of(step))))
        at[rank] += 1
        return True

    try:
        moved = True
        while moved:
            moved = False
            for rank, steps in enumerate(program):
                while at[rank] < len(steps) and advance(rank):
                    moved = True
    except ValueError as missing:
        return [str(missing)]
    return _circle(program, at, through)


def _circle(program: Program, at: list[int], through: set[Message]) -> list[str]:
    """A sentence for each rank that waits, and for what."""
    waiting = []
    for rank, steps in enumerate(program):
        step = steps[at[rank]] if at[rank] < len(steps) else None
        if isinstance(step, MessageBatch):
            message = next(message for message in step.messages if message not in through)
            other = message.source + message.destination - rank
            does = "sends" if message.source == rank else "receives"
            waiting.append(f"rank {rank}, step {at[rank]}, {does} {message}, but rank {other} is at step {at[other]}")
    if not waiting:
        return []
    return ["; ".join(waiting) + ": a send waits for its receive, so post what crosses in one batch, or receive first"]
