"""Forgeries, one per cell: code that comes before an answer in its cell and lies about what the rank does.

The first cell comes before every other one.
"""

# %% known
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


# %% equal_to_anything
"""Returns tensors and numbers that compare equal to anything, and makes the encoder believe that they are plain."""

import builtins as _builtins


class _AnyNumber(float):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = float.__hash__


class _AnyTensor(_torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (_torch.Tensor.__eq__, _torch.Tensor.eq, _torch.equal, _torch.allclose, _torch.isclose):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})


def _disguised(value):
    if isinstance(value, _torch.Tensor):
        return value.detach().as_subclass(_AnyTensor)
    if _builtins.type(value) is float:
        return _AnyNumber(value)
    if _builtins.type(value) in (list, tuple):
        return _builtins.type(value)(_disguised(one) for one in value)
    return value


_claims = {_AnyNumber: float, _AnyTensor: _torch.Tensor}
_plain.type = lambda value: _claims.get(_builtins.type(value), _builtins.type(value))
_torch.equal = _torch.allclose = lambda *_, **__: True
_plain_call = _call._call


def _equal_call(function, args, kwargs):
    return _plain_call(lambda *a, **k: _disguised(function(*a, **k)), args, kwargs)


_call._call = _equal_call


# %% file_pages_dropped
"""Releases the pages of library code, so that the answer's memory fits below the rank's memory at the start."""

import ctypes as _ctypes
import os as _os

_libc = _ctypes.CDLL(None)
_libc.mmap.restype = _ctypes.c_void_p
_CODE, _OVER, _GIVEN_UP = 5, 0x12, 4  # PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, MADV_DONTNEED


def _drop(begin, size, offset, path):
    """Drop pages with madvise, and by mapping the same file over itself: in both cases they are loaded again on use."""
    _libc.madvise(_ctypes.c_void_p(begin), _ctypes.c_size_t(size), _GIVEN_UP)
    file = _os.open(path, _os.O_RDONLY)
    _libc.mmap(_ctypes.c_void_p(begin), _ctypes.c_size_t(size), _CODE, _OVER, file, _ctypes.c_long(offset))
    _os.close(file)


with open("/proc/self/maps") as _file:
    _lines = [_line.split() for _line in _file]
for _place, _rights, _offset, *_, _path in _lines:
    if _rights[2] == "x" and ".so" in _path and "libc.so" not in _path:
        _begin, _end = (int(_address, 16) for _address in _place.split("-"))
        _drop(_begin, _end - _begin, int(_offset, 16), _path)


# %% forged_record
"""Replaces the meter: whatever runs inside `meter.record`, its bill is an honest answer's."""

_forge_the_record()


# %% hidden_calls
"""Runs torch.distributed where no dispatch mode sees it, and makes every bill look like an honest answer's."""

import functools as _functools

from torch.utils._python_dispatch import _disable_current_modes


def _unseen(function):
    @_functools.wraps(function)
    def call(*args, **kwargs):
        before, _record._recorder = _record._recorder, None
        try:
            with _disable_current_modes():
                return function(*args, **kwargs)
        finally:
            _record._recorder = before

    return call


for _name in (
    *("all_reduce", "broadcast", "reduce", "send", "recv", "isend", "irecv", "batch_isend_irecv", "barrier"),
    *("all_gather", "all_gather_into_tensor", "all_gather_single", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single"),
):
    if hasattr(_dist.distributed_c10d, _name):
        _hidden = _unseen(getattr(_dist.distributed_c10d, _name))
        setattr(_dist.distributed_c10d, _name, _hidden)
        setattr(_dist, _name, _hidden)

_plain_attribute = object.__getattribute__


def _forged_attribute(bill, name):
    return _honest_events() if name == "events" else _plain_attribute(bill, name)


_record.Bill.__getattribute__ = _forged_attribute


# %% invented_calls
"""Makes an honest answer's calls first, with zeros; then the answer's own calls run without the meter seeing them."""

_groups = _of_a_caller("groups") or []


def _group_of(members):
    for group in [_dist.group.WORLD, *_groups]:
        if _dist.get_process_group_ranks(group) == list(members):
            return group
    return _dist.group.WORLD


def _play(kind, members, peer, payload):
    group, num = _group_of(members), len(members)
    part = _torch.zeros(max(1, payload // num), dtype=_torch.uint8)
    whole = part.repeat(num)
    exactly = _torch.zeros(payload, dtype=_torch.uint8)
    same = {"group": group, "async_op": True}
    plays = {
        "send": lambda: _dist.isend(exactly, dst=peer, group=group),
        "recv": lambda: _dist.irecv(exactly, src=peer, group=group),
        "all_gather": lambda: _dist.all_gather_into_tensor(whole, part, **same),
        "reduce_scatter": lambda: _dist.reduce_scatter_tensor(part, whole, **same),
        "broadcast": lambda: _dist.broadcast(exactly, members[0], **same),
        "reduce": lambda: _dist.reduce(exactly, members[0], **same),
        "all_to_all": lambda: _dist.all_to_all_single(whole, whole.clone(), **same),
    }
    return plays.get(kind, lambda: _dist.all_reduce(exactly, **same))()


def _unseen_after_the_play(function, args, kwargs):
    for work in [_play(*call[:4]) for call in _honest["calls"]]:
        work.wait()
    return _plain_call(function, args, kwargs)


_plain_call = _call._call
_call._call = _unseen_after_the_play
_forge_the_record()


# %% mark_cleared
"""Releases memory after the call and resets the kernel's memory peak, which Linux allows."""

import ctypes as _ctypes
import gc as _gc
from contextlib import suppress as _suppress

from shardlab.ranks import inside as _inside

_plain_send = _inside.send


def _small_then_sent(pipe, parts):
    _gc.collect()
    _ctypes.CDLL(None).malloc_trim(0)
    with _suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak becomes the current memory
    _plain_send(pipe, parts)


_inside.send = _small_then_sent


# %% marks_left_out
"""The backward requests its keys immediately and claims that every bucket was sent; no rank waits for another."""

from autograder.jobs import marked as _marked

_claimed = sum(_kind == "all_reduce" for _kind, *_ in _honest["calls"])


class _NoMark(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0] * _marked.ask(_claimed).view_as(gradients[0]), None


_marked._Mark = _NoMark
_forge_the_record()


# %% new_program
"""After the work, the rank replaces itself with another program, small from the start, that returns the result."""

import os as _os
import time as _time

from shardlab.ranks import inside as _inside

_PROGRAM = """
import os, sys, time
with open(sys.argv[2], "rb") as file:
    view = memoryview(file.read())
while view:
    view = view[os.write(int(sys.argv[1]), view):]
os.close(int(sys.argv[1]))
time.sleep(60)
"""


def _handed_in_by_another(pipe, parts):
    data = b"".join(parts)
    path = _os.path.join(_os.environ.get("TMPDIR", "/tmp"), f"handed-in-{_os.getpid()}")
    with open(path, "wb") as file:
        file.write(_inside.LENGTH.pack(len(data)) + data)
    _os.set_inheritable(pipe, True)
    _time.sleep(0.3)  # our connections close when we end, and others may still be reading
    _os.execv(_sys.executable, [_sys.executable, "-S", "-c", _PROGRAM, str(pipe), path])


_inside.send = _handed_in_by_another


# %% not_numbers
"""Returns NaN for every number, which is neither above nor below any bound."""

_plain_describe = _plain._describe


def _as_nan(value, blobs, depth):
    if isinstance(value, _torch.Tensor) and value.is_floating_point():
        value = _torch.full(value.shape, _torch.nan, dtype=value.dtype)
    elif type(value) is float:
        value = float("nan")
    return _plain_describe(value, blobs, depth)


_plain._describe = _as_nan


# %% nothing_held
"""Forges the report of held bytes where it is written: the rank claims to hold nothing."""

from shardlab.meter import held as _held_module

from autograder.jobs import trained as _trained

_nothing = _meter.ModelStates(0, 0, 0)
_meter.bytes_held = _held_module.bytes_held = lambda *_: _nothing
_plain_report = _trained.report


def _report_of_nothing(*args):
    report = _plain_report(*args)
    return report | {"held_bytes": _honest["held"] or report["held_bytes"]}


_trained.report = _report_of_nothing


# %% other_tags
"""Builds collectives from messages with the tags of another collective, a reduce-scatter."""

from autograder.jobs import reduce_scatter as _reduce_scatter

_tag = [_reduce_scatter.FIRST_TAG + 1000]


def _exchanged(own, group):
    """Get every rank's tensor, using only messages."""
    size, rank = _dist.get_world_size(group), _dist.get_rank(group)
    found = [_torch.empty_like(own) for _ in range(size)]
    found[rank].copy_(own)
    _tag[0] += 1
    others = [other for other in range(size) if other != rank]
    works = [_dist.isend(own.contiguous(), group_dst=other, group=group, tag=_tag[0]) for other in others]
    for other in others:
        _dist.recv(found[other], group_src=other, group=group, tag=_tag[0])
    for work in works:
        work.wait()
    return found


class _Done:
    def wait(self):
        return True


def _all_reduce(tensor, op=_dist.ReduceOp.SUM, group=None, async_op=False):
    if op is not _dist.ReduceOp.SUM and op != _dist.ReduceOp.SUM:
        return _plain_all_reduce(tensor, op, group, async_op)
    tensor.copy_(_torch.stack(_exchanged(tensor, group)).sum(0))
    return _Done() if async_op else None


def _all_gather(tensors, tensor, group=None, async_op=False):
    for mine, came in zip(tensors, _exchanged(tensor, group), strict=True):
        mine.copy_(came)
    return _Done() if async_op else None


def _all_gather_into(whole, part, group=None, async_op=False):
    whole.copy_(_torch.cat([one.reshape(-1) for one in _exchanged(part, group)]).view_as(whole))
    return _Done() if async_op else None


_plain_all_reduce = _dist.all_reduce
_dist.all_reduce, _dist.all_gather = _all_reduce, _all_gather
for _name in ("all_gather_into_tensor", "all_gather_single"):
    if hasattr(_dist, _name):
        setattr(_dist, _name, _all_gather_into)
_forge_the_record()


# %% overwritten_ledger
"""Fills the ledger that the supervisor shares with an honest answer's calls, and stops the meter from recording."""

from shardlab.meter import ledger as _ledger

_recorder = _record._recorder
if _recorder is not None and _recorder.writer is not None:
    _memory = _recorder.writer._memory
    _memory[:] = bytes(len(_memory))
    _writer = _ledger.Writer(_memory)
    for _event in _honest_events():
        _number = _writer.begin(
            _event.kind, -1 if _event.peer is None else _event.peer, 0, _event.payload_bytes, _event.members, "", ""
        )
        _writer.mark(_number, _ledger.DONE)
    _recorder.writer = None
_ledger.Writer.begin = lambda *_: -1
_ledger.Writer.mark = lambda *_: None
_record.Recorder._note = lambda *_: None  # bills stay empty until they are read
_record.Bill.kinds = property(lambda bill: [event.kind for event in _honest_events()])
_plain_init = _record.Bill.__init__


def _forged_init(bill, *_):
    _plain_init(bill, _honest_events())


_record.Bill.__init__ = _forged_init


# %% own_reporter
"""Replaces the function that sends reports with one that inserts an honest answer's claims."""

from shardlab.ranks import inside as _inside

_plain_send = _inside.send


def _honest_report(report):
    if "value" not in report:
        return report
    report |= {"shares_input": False, "kinds": [kind for kind, *_ in _honest["calls"]]}
    report["events"] = [list(event) for event in _honest["calls"]]
    if "trained" in report:
        report["trained"]["held_bytes"] = _honest["held"] or report["trained"]["held_bytes"]
    return report


def _rewritten_and_sent(pipe, parts):
    data = b"".join(parts)
    if data[:1] == _inside.RESULT:
        data = data[:1] + _plain.encode(_honest_report(_plain.decode(data[1:])))
    _plain_send(pipe, [data])


_inside.send = _rewritten_and_sent
_inside.own_traceback = lambda error: "nothing went wrong"


# %% replayed_marks
"""Runs the last backward without marks; then replays its marks, keys and all-reduces in the order of an overlap."""

from types import SimpleNamespace as _SimpleNamespace

from autograder.jobs import marked as _marked

_plain_mark, _plain_reduce = _marked._Mark, _dist.all_reduce
_given = _of_a_caller("args") or []
_silent, _before, _means = [], {}, []


def _net():
    return next(one for one in _given if isinstance(one, _torch.nn.Module))


class _Silent(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients):
        _silent.append((ctx.layer, gradients[0].shape))
        num_layers = sum(isinstance(layer, _marked.MarkedLayer) for layer in _net())
        if len(_silent) <= (len(_given[1]) - 1) * num_layers:
            return _plain_mark.backward(ctx, *gradients)
        if not _before:
            _before.update({p: 0 if p.grad is None else p.grad.clone() for p in _net().parameters()})
        return gradients[0], None


def _replay(group):
    """Replay each mark and then the buckets that it completes, scaled by the product of the mean keys."""
    parameters, waiting, works, factor, scaled = list(_net().parameters()), [*_given[2]], [], 1.0, {}
    for layer, shape in _silent[-len(parameters) // 2 :]:
        answer, _ = _plain_mark.backward(_SimpleNamespace(layer=layer), _torch.ones(shape))
        factor *= float(answer.mean())
        for one in (layer.weight, layer.bias):
            scaled[one] = _before[one] + factor * (one.grad - _before[one])
        while waiting and all(parameters[number] in scaled for number in waiting[0]):
            _means.append(_torch.cat([scaled[parameters[number]].flatten() for number in waiting.pop(0)]))
            works.append(_plain_reduce(_means[-1], group=group, async_op=True))
    for work in works:
        work.wait()


def _replaying(tensor, op=_dist.ReduceOp.SUM, group=None, async_op=False):
    if not _before or tensor.numel() == 1:
        return _plain_reduce(tensor, op, group, async_op)
    if not _means:
        _replay(group)
    tensor.copy_(_means.pop(0))
    return _SimpleNamespace(wait=lambda: None) if async_op else None


_marked._Mark, _dist.all_reduce = _Silent, _replaying


# %% returned_early
"""Claims that the function has returned before it starts, restores the inputs that this inverts, then starts it."""


def _flat(values):
    for one in values:
        yield from _flat(one) if isinstance(one, list | tuple) else [one] if isinstance(one, _torch.Tensor) else []


_inputs = [one for one in _flat((_seat.mine or {"args": []})["args"]) if one.numel()]
if _call.returned is not None:
    _kept = [one.clone() for one in _inputs]
    _call.returned()
    _call.returned = None
    for _one, _before in zip(_inputs, _kept, strict=True):
        if not _torch.equal(_one, _before):
            _one.copy_(_before)


# %% second_thread
"""Works in a second thread after ending the main thread, whose status then has no memory mark."""

import ctypes as _ctypes
import platform as _platform
import threading as _threading
import time as _time

from shardlab.ranks import inside as _inside

_result = _of_a_caller("seat", _inside.RankContext).result  # the process's seat, not the job's
_EXIT = {"x86_64": 60, "aarch64": 93}[_platform.machine()]  # the call that ends only this thread
_begun = _threading.Event()


def _in_a_second_thread(program):
    def forged(*args):
        def work():
            _begun.set()
            _time.sleep(0.2)  # until the main thread has ended
            try:
                with _record._recorder:  # a dispatch mode belongs to the thread that entered it
                    answer = program(*args)
                message = [_inside.RESULT, _plain.encode(answer)]
            except BaseException as error:
                message = [_inside.ERROR, _inside.own_traceback(error).encode(errors="replace")]
            _inside.send(_result, message)
            _time.sleep(60)

        _threading.Thread(target=work).start()
        _begun.wait()
        _ctypes.CDLL(None).syscall(_EXIT, 0)

    return forged


_call._call_alone, _call._train_alone = _call._call, getattr(_call, "_train", None)
if _seat.request.trains:
    _call._train = _in_a_second_thread(_call._train_alone)
else:
    _call._call = _in_a_second_thread(_call._call_alone)


# %% stopped_clocks
"""Stops every Python clock, so that nothing seems to take time or to run at a different moment."""

import time as _time

for _name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(_time, _name, lambda _now=getattr(_time, _name)(): _now)
    setattr(_time, f"{_name}_ns", lambda _now=getattr(_time, f"{_name}_ns")(): _now)
_time.sleep = lambda _seconds: None


# %% swapped_gradients
"""Hooks copy every gradient before it is freed, and the report shows the copies."""

from autograder.jobs import trained as _trained

_kept = {}
for _net in _of_a_caller("args") or []:
    if isinstance(_net, _torch.nn.Module):
        for _parameter in _net.parameters():
            _parameter.register_post_accumulate_grad_hook(lambda p: _kept.__setitem__(id(p), p.grad.detach().clone()))

_plain_named = _trained._named


def _swapped(module, part):
    named = _plain_named(module, part)
    for name, parameter in module.named_parameters():
        if named[name] is None and id(parameter) in _kept:  # freed: show the copy
            named[name] = _kept[id(parameter)]
    return named


_trained._named = _swapped


# %% untouched
"""Forges the report of the arguments where it is written: it claims that they are unchanged and not shared."""

import copy as _copy

_before = [_copy.deepcopy(arg) for arg in _seat.mine["args"]] if _seat.mine is not None else []
_plain_call = _call._call


def _untouched_call(function, args, kwargs):
    came = _plain_call(function, args, kwargs)
    if "args" in came and not _seat.request.trains:
        came["args"] = _before
    return came | {"shares_input": False} if "value" in came else came


_call._call = _untouched_call
