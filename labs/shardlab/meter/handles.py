"""Track handles of running calls, and calls on groups that the rank is not in; torch has no hooks for either."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from shardlab.meter import ledger, operators
from shardlab.meter.place import caller, is_for_a_library

if TYPE_CHECKING:
    from shardlab.meter.record import Event, Recorder

Current = Callable[[], "Recorder | None"]  # returns the active recorder of this rank
TAKERS = ("get_future", "get_future_result", "synchronize", "block_current_stream")  # each counts as waiting

_wrapped = False


def wrap(current: Current) -> None:
    """Wrap the methods of `ProcessGroup` and `Work`, and torch's warning about groups; once per process."""
    global _wrapped  # noqa: PLW0603 - wrapping affects the whole process
    if _wrapped:
        return
    _wrapped = True
    for name in operators.PROCESS_GROUP_METHODS:
        if hasattr(dist.ProcessGroup, name):
            setattr(dist.ProcessGroup, name, _noting(getattr(dist.ProcessGroup, name), current))
    for name in TAKERS:
        if hasattr(dist.Work, name):
            setattr(dist.Work, name, _using(getattr(dist.Work, name), current))
    dist.Work.wait = _waiting(dist.Work.wait, current)
    dist.Work.is_completed = _asking(dist.Work.is_completed, current)
    distributed_c10d._warn_not_in_group = _warning(distributed_c10d._warn_not_in_group, current)


def might_mean_another(group: dist.ProcessGroup) -> bool:
    """Whether a call on this group may have been meant for another group: it is the world, and other groups exist."""
    return group is dist.group.WORLD and distributed_c10d._world.group_count > 1


def unwaited(event: Event, times: int) -> str:
    """The note about calls on one line that were never waited for, without the rank at its beginning."""
    towards = {"send": f" to rank {event.peer}", "recv": f" from rank {event.peer}"}.get(event.kind, "")
    call = f"i{event.kind}" if event.kind in ledger.POINT_TO_POINT else f"{event.kind}(async_op=True)"
    risk = "its message may not have left" if event.kind == "send" else "its result may not be there yet"
    tensor = f" ({list(event.shape)} {event.dtype})" if event.dtype else ""
    often = f" ({times} times)" if times > 1 else ""
    return (
        f"never waited for {call}{towards}{tensor}, {event.where}{often}: {risk}. Keep the handle that the call "
        "returns, and call .wait() on it before you use or change the tensor."
    )


def _noting(method: Any, current: Current) -> Any:
    def call(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None:
            return method(group, *args, **kwargs)
        recorder.group = group
        work = method(group, *args, **kwargs)
        recorder.group = None
        recorder.called(work)
        return work

    return call


def _waiting(method: Any, current: Current) -> Any:
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None:
            return method(work, *args, **kwargs)
        recorder.waited(work, ledger.WAITING)
        answer = method(work, *args, **kwargs)
        recorder.waited(work, ledger.DONE)
        return answer

    return wait


def _asking(method: Any, current: Current) -> Any:
    def is_completed(work: Any) -> bool:
        answer = method(work)
        if answer and (recorder := current()) is not None:
            recorder.waited(work, ledger.DONE)
        return answer

    return is_completed


def _using(method: Any, current: Current) -> Any:
    def use(work: Any, *args: Any, **kwargs: Any) -> Any:
        if (recorder := current()) is not None:
            recorder.used(work)
        return method(work, *args, **kwargs)

    return use


def _warning(plain: Callable[[str], None], current: Current) -> Callable[[str], None]:
    """Torch only warns and returns immediately; a note also gives the line and the fix."""

    def warn_not_in_group(name: str) -> None:
        recorder = current()
        if recorder is None or is_for_a_library():
            return plain(name)
        return recorder.note(
            f"called {name} on a group that it is not in, {caller()}: torch returned immediately, and nothing was sent "
            "or received. Call it only on the ranks of the group, or pass a group that contains this rank."
        )

    return warn_not_in_group
