"""The beginning of every forgery: find the current case and the calls that an honest answer makes in it.

The cell defines `HONEST` above this source: {case: {"calls": [...], "held": {...}}}, from a run of a right answer on
the same inputs. A student who reads our code could derive the same from the shapes of the arguments.
"""

import hashlib as _hashlib
import sys as _sys
from contextlib import contextmanager as _contextmanager

import torch as _torch
import torch.distributed as _dist
from shardlab import meter as _meter

from autograder.jobs import call as _call
from autograder.jobs import plain as _plain

_record = _sys.modules["shardlab.meter.record"]  # in the package, `record` is a function


def _of_a_caller(name, kind=object):
    """The variable with that name and type in the nearest calling frame that has one."""
    frame = _sys._getframe(1)
    while frame is not None and not (name in frame.f_locals and isinstance(frame.f_locals[name], kind)):
        frame = frame.f_back
    return None if frame is None else frame.f_locals[name]


_seat = _of_a_caller("seat")
_case = f"{_seat.rank}:{_hashlib.sha256(_plain.encode(_seat.mine)).hexdigest()[:24]}"
_honest = HONEST.get(_case, {"calls": [], "held": {}})


def _honest_events():
    """The calls of an honest answer, as the meter would have recorded them."""
    return [
        _record.Event(kind, tuple(members), peer, (payload,), "uint8", payload, sent, "<answer>:1", 0.0, 1.0, 0.5)
        for kind, members, peer, payload, sent in _honest["calls"]
    ]


def _forge_the_record():
    """Make every bill show an honest answer's calls, whatever runs while it is open."""

    @_contextmanager
    def forged():
        yield _record.Bill(_honest_events())

    _meter.record = _record.record = forged
