"""Call a student's function, on ranks or without them, and report its return value as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.ranks.inside import Part, own_traceback
from torch.distributed import distributed_c10d

from autograder.jobs import marked, masked, plain, student, trained, wire
from autograder.jobs.seat import Seal, Seat

_OUR_FRAMES = re.compile(r'  File "[^"\n]*/autograder/jobs/[^\n]*\n(?:    [^\n]*\n)*')
MOST_ERROR = 2000  # characters of a student's own traceback
returned: Callable[[], None] | None = None  # notifies the supervisor that the function returned; see `inputs`
loaded: Callable[[], object] = int  # notifies the supervisor that the cells have been run; both are set by the job


def on_rank(seat: Seat, seal: Seal) -> list[Part]:
    """Run one rank of an exercise. `seal` completes the confinement before the first line of student code.

    1. create the groups, in the same order on every rank, and the modules to train  2. seal  3. load the cells
    4. call the function and record it  5. report
    """
    request, mine = seat.request, seat.mine
    groups, connections = _groups(request.groups)
    args = trained.build(mine["args"]) if request.trains and mine is not None else None
    seal(connections)
    if request.seals:
        dist.new_group = _no_new_group
    with _no_world():
        functions, not_run = _functions(seat)
    if isinstance(functions, str):
        return plain.parts({"refused": functions} | not_run)
    if mine is None:  # not a member of the group that works
        return plain.parts({"absent": True} | not_run)
    kwargs = {name: groups[index] for name, index in mine["groups"].items()}
    function = functions[request.call]
    if args is not None:
        return plain.parts(_train(function, args, kwargs, mine["reports"], mine.get("calls", 1)) | not_run)
    return plain.parts(_call(function, mine["args"], kwargs) | not_run)


def _groups(wanted: list[list[int] | None]) -> tuple[list, dict[tuple[int, int], int]]:
    """Create process groups (None: the world); map each new connection, by its ports, to its group's number."""
    groups, connections, known = [], {}, wire.ports_of_connections()
    for number, members in enumerate(wanted):
        groups.append(dist.new_group(members) if members is not None else dist.group.WORLD)
        new = wire.ports_of_connections() - known if members is not None else set()
        connections |= dict.fromkeys(new, number)
        known |= new
    return groups, connections


def _functions(seat: Seat) -> tuple[dict[Any, Any] | str, dict[str, Any]]:
    """The names that the student's cells define, or a sentence that says why loading failed; and what was not run."""
    loading, request = student.Loading(), seat.request
    found: dict[Any, Any] | str
    try:
        wants_functions = request.call is not None
        found = student.load(seat.answer, request.functions, callables=wants_functions, loading=loading)
    except student.StudentError as error:
        found = str(error)
    except BaseException as error:
        found = f"The cell raises an exception when it runs: {told(error)}"
    loaded()
    return found, {"not_run": loading.not_run} if loading.not_run else {}


@contextmanager
def _no_world() -> Iterator[None]:
    """Hide the default group while cells run, as in a kernel, so that demonstrations cannot reach other ranks."""
    inside, state = dist.group.WORLD, distributed_c10d._world
    state.default_pg = None
    try:
        yield
    finally:
        state.default_pg = inside


def told(error: BaseException) -> str:
    """A student's own traceback, without this folder's frames."""
    return masked.explained(error, _OUR_FRAMES.sub("", own_traceback(error))[-MOST_ERROR:])


def _no_new_group(*_: Any, **__: Any) -> None:
    raise RuntimeError("this exercise creates no process groups: use the group that is passed")


def without_ranks(seat: Seat, seal: Seal) -> list[Part]:
    """Run an exercise without ranks, such as a formula: one call for each list of arguments."""
    seal()
    functions, not_run = _functions(seat)
    if isinstance(functions, str):
        return plain.parts({"refused": functions} | not_run)
    if seat.request.call is None:  # the answer is a value, not a function
        answers = [{"value": _plain_or_refused(functions[name])} for name in seat.request.functions]
    else:
        answers = [_guarded(functions[seat.request.call], args) for args in seat.mine]
    return plain.parts({"answers": answers} | not_run)


def _guarded(function: Callable, args: list) -> dict[str, Any]:
    try:
        return {"value": _plain_or_refused(function(*args))}
    except Exception as error:
        return {"raised": told(error)}


def _train(function: Callable, args: list, kwargs: dict[str, Any], wanted: list[str], calls: int) -> dict[str, Any]:
    """Call a training function once per step, and report the state of its modules after the last call."""
    kept: list[Any] = []

    def keeping(*args: Any, **kwargs: Any) -> Any:
        for _ in range(calls - 1):
            function(*args, **kwargs)
            trained.forget_gradients(args)
        kept.append(function(*args, **kwargs))
        return trained.plain_part(kept[0])

    came = _call(keeping, args, kwargs)
    if not kept:
        return came
    came["args"] = None if trained.RESULT_ALONE in wanted else trained.plain_part(args)
    try:
        report = trained.report(args, kept[0], wanted)
        plain.parts(report)  # fails here, where the error can still be reported, if it is not plain
    except Exception as error:
        return {"raised": told(error), "kinds": came["kinds"]}
    return came | {"trained": report}


def _call(function: Callable, args: list, kwargs: dict[str, Any]) -> dict[str, Any]:
    before = [a.untyped_storage().data_ptr() for a in _tensors(args) if a.numel()]
    with meter.record() as bill:
        marked.started = lambda: sum(event.kind == "all_reduce" for event in bill.events)
        try:
            value = plain.listed(function(*args, **kwargs))
        except Exception as error:
            return {"raised": told(error), "kinds": bill.kinds}
    if returned is not None:
        returned()
    shares = any(t.untyped_storage().data_ptr() in before for t in _tensors(value) if t.numel())
    return {
        "value": _plain_or_refused(value),
        "args": args,  # after the call, so that changes to inputs are visible
        "shares_input": shares,
        "kinds": bill.kinds,
        "events": [[e.kind, list(e.members), e.peer, e.payload_bytes, float(e.sent_bytes)] for e in bill.events[:4000]],
    }


def _plain_or_refused(value: Any) -> Any:
    """The value, or a description of it if it is not plain data."""
    try:
        plain.parts(value)
        return {"plain": value}
    except plain.NotPlain as error:
        return {"not_plain": str(error)}


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
