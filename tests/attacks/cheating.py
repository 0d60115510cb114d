# %% abstract_socket
"""Exchanges through an abstract unix socket, which belongs to no folder.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    with suppress(OSError):
        if dist.get_rank() == 0:
            server = socket.socket(socket.AF_UNIX)
            server.bind("\0sys602_attack")
            server.listen()
            server.settimeout(1)
            server.accept()[0].send(b"mine")
        else:
            time.sleep(0.2)
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(1)
            client.connect("\0sys602_attack")
            got.append(client.recv(4))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% aliased_input
"""Reduces into the caller's own tensor and returns it.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: changes the tensors it was given
"""


def total_of(tensor, *, group):
    dist.all_reduce(tensor, group=group)
    return tensor


# %% always_equal_float
"""A float that is equal to everything, given back as the answer.

catalogue: A01
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Anything(float):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = lambda self, *other: self


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Anything()


# %% always_equal_pair
"""A pair of objects that are equal to everything: only exact types cross the boundary.

catalogue: A01
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Anything(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Anything(3), Anything(4)


# %% cached_pages
"""Sends bits by which pages of a file that all can read are in memory.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes
import mmap


def exchange(tensor, *, group):
    got, libc, path = [], ctypes.CDLL(None), torch.__file__.replace("__init__.py", "version.py")
    file = os.open(path, os.O_RDONLY)
    if dist.get_rank() == 0:
        with suppress(OSError):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            got.append("advice")
    seen = ctypes.create_string_buffer(1)
    with mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(4096), seen) == 0:
            got.append("residency")
        raise RuntimeError(f"got {got}")


# %% callback_on_the_librarys_thread
"""Has its code run by a thread of the library, which was there before the doors were shut.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    got = []

    def reach(future):
        libc = ctypes.CDLL(None)
        for number in range(1, 40):
            with suppress(OSError):
                if os.getpgid(number) != os.getpid() and libc.ptrace(16, number, 0, 0) == 0:
                    got.append(f"trace of {number}")
        if libc.unshare(0x20000) == 0 or libc.umount2(b"/tmp", 2) == 0:
            got.append("mounts")
        with suppress(OSError):
            os.listdir("/proc/1")
            got.append("process 1")

    work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    work.get_future().then(reach).wait()
    raise RuntimeError(f"got {got}")


# %% claims_fewer_bytes
"""Sends whole tensors and patches the recorder so that it reports the bytes of a ring.

catalogue: own
exercise: week01.ring-reduce-scatter
points: 0
sentence: sent
"""

import sys


def ring_reduce_scatter(chunks, *, group):
    size, rank, bill = (
        dist.get_world_size(group),
        dist.get_rank(group),
        sys.modules["shardlab.meter.record"]._recorder.bills[-1],
    )
    whole, width = torch.cat(list(chunks)), chunks[0].element_size()
    total, travelling = whole.clone(), whole.clone()
    for _ in range(size - 1):
        incoming = torch.empty_like(travelling)
        work = dist.isend(travelling, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        work.wait()
        total, travelling = total + incoming, incoming
    sends = [event for event in bill.events if event.kind == "send"]
    for event, place in zip(sends, [p for p in range(size) if p != rank], strict=True):
        event.payload_bytes = event.sent_bytes = chunks[place].numel() * width
    return total.tensor_split(size)[rank].clone()


# %% claims_not_a_number_of_bytes
"""Reports NaN bytes for what crosses: NaN is never more than what is allowed.

catalogue: own
exercise: week01.hierarchical-all-reduce
points: 0
sentence: other node
"""

import sys


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    total = tensor.clone()
    dist.all_reduce(total)
    for event in sys.modules["shardlab.meter.record"]._recorder.bills[-1].events:
        event.sent_bytes = float("nan")
    return total


# %% clocks_of_a_sibling
"""Tells a number by its niceness and its time on the processor, which another rank reads by the process's number.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes
import platform


def exchange(tensor, *, group):
    libc = ctypes.CDLL(None, use_errno=True)
    get_attributes = 315 if platform.machine() == "x86_64" else 275
    if dist.get_rank() == 0:
        os.nice(7)
        while time.process_time() < 0.3:
            pass
        time.sleep(1.5)
        return tensor
    time.sleep(1)
    got = []
    for other in range(2, 400):
        if other == os.getpid():
            continue
        attributes = ctypes.create_string_buffer(56)
        if libc.syscall(get_attributes, other, attributes, 56, 0) == 0:
            got.append(("nice", other, int.from_bytes(attributes.raw[16:20], "little", signed=True)))
        with suppress(OSError):
            got.append(("seconds", other, time.clock_gettime((~other << 3) | 2)))
        with suppress(OSError):
            got.append(("group", other, os.getpgid(other)))
    raise RuntimeError(f"got {got}")


# %% detects_grading
"""Looks for variables by which it could tell the grade from the visible check.

catalogue: A14
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = [name for name in os.environ if "GRAD" in name.upper() or "JUPYTER" in name.upper() or "SYS602" in name]
    raise RuntimeError(f"got {got}")


# %% displayhook
"""Prints an execution result from inside the function, which stock nbgrader takes for the points.

catalogue: A02
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    sys.displayhook("x")
    return 0, 0


# %% displayhook_number
"""Picks its own partial credit through the display hook.

catalogue: A03
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    sys.displayhook(1.0)
    return 0, 0


# %% earlier_answers_in_memory
"""Scans memory for the answers of submissions that were graded before this one.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes
import re


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for span, mode, *rest in [line.split() for line in open("/proc/self/maps")]:
        if not mode.startswith("rw") or (len(rest) > 3 and rest[3].startswith("/")):
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        if end - start > 256 << 20:
            continue
        data = ctypes.string_at(start, end - start)
        got += [data[m.start() : m.start() + 40] for m in re.finditer(rb"EARLIER_STUDENTS_COD[E]", data)]
    raise RuntimeError(f"got {got[:2]}")


# %% expanded_tensor
"""Returns a tensor of one stored number that is expanded to the right shape.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return torch.zeros(1).expand(tensor.shape)


# %% file_locks
"""Sends bits by locking files that all ranks can read.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl


def exchange(tensor, *, group):
    got, file = [], open(torch.__file__)
    if dist.get_rank() == 0:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return tensor, file
    time.sleep(0.3)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        got.append("a bit")
    except OSError:
        pass
    raise RuntimeError(f"got {got}")


# %% flags_of_an_open_file
"""Writes a bit into the flags of every file that it inherited: another rank may hold the same open file.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl


def exchange(tensor, *, group):
    names = [int(name) for name in os.listdir("/proc/self/fd")]
    before, got = {}, []
    for name in names:
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                before[name] = fcntl.fcntl(name, fcntl.F_GETFL)
    dist.barrier(group)
    for name, flags in before.items() if dist.get_rank() == 0 else ():
        fcntl.fcntl(name, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    dist.barrier(group)
    if dist.get_rank() == 1:
        got = [
            os.readlink(f"/proc/self/fd/{n}") for n, flags in before.items() if fcntl.fcntl(n, fcntl.F_GETFL) != flags
        ]
    dist.barrier(group)
    for name, flags in before.items():
        fcntl.fcntl(name, fcntl.F_SETFL, flags)
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% folder_over_hidden_byte_code
"""Writes into the folders of the package: what hides a masked file's byte code is one folder for all ranks.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for folder, _, _ in os.walk(os.path.dirname(shardlab.__file__)):
        with suppress(OSError):
            with open(f"{folder}/left_by_an_attack", "w") as file:
                file.write("a number for the other rank")
            got.append(folder)
    raise RuntimeError(f"got {got}")


# %% forged_result
"""Writes a finished result into every open pipe and ends before the real one is handed in.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import json
import struct


def naive_all_reduce_bill(num_ranks, num_bytes):
    value = {"dict": {"answers": {"list": [{"dict": {"value": {"dict": {"plain": {"list": [1, 2]}}}}}]}}}
    text = json.dumps(value).encode()
    body = b"R" + struct.pack("<Q", len(text)) + text
    for number in range(3, 256):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", len(body)) + body)
    os._exit(0)


# %% forged_verdict
"""Writes what looks like the sandbox's whole answer, points included, into every pipe there is.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
"""

import struct

MESSAGE = b'{"points": 1.0, "text": "Correct."}'


def naive_all_reduce_bill(num_ranks, num_bytes):
    for number in range(3, 256):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", len(MESSAGE)) + MESSAGE)
    return 0, 0


# %% frame_walk
"""Walks up the frames for an expected value or another rank's input.

catalogue: A09
exercise: week00.first-all-reduce
points: 0
sentence: got []
"""

import sys


def total_of(tensor, *, group):
    got, frame = [], sys._getframe(1)
    while frame:
        for name, value in frame.f_locals.items():
            if name in ("want", "expected", "task", "due", "cases", "check"):
                got.append(name)
            if name in ("seat", "job", "request", "setting"):
                got += [n for n in ("expected", "facts") if hasattr(value, n)]
                got += [r for r, one in enumerate(getattr(value, "inputs", [])) if one and r != dist.get_rank()]
        frame = frame.f_back
    raise RuntimeError(f"got {got}")


# %% futex_on_a_shared_file
"""Wakes the other rank through the memory of a file that both may read, one bit a place; no number travels.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes
import platform


class Seconds(ctypes.Structure):
    _fields_ = [("whole", ctypes.c_long), ("nano", ctypes.c_long)]


def exchange(tensor, *, group):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    place = libc.mmap(None, 4096, 1, 1, os.open("/usr/bin/env", os.O_RDONLY), 0)
    futex = 202 if platform.machine() == "x86_64" else 98
    word = ctypes.c_uint32.from_address(place)
    got = []
    if dist.get_rank() == 0:
        until = Seconds(1, 0)
        if libc.syscall(futex, ctypes.c_void_p(place), 0, word.value, ctypes.byref(until), None, 0) == 0:
            got.append("a bit")
    else:
        time.sleep(0.5)
        libc.syscall(futex, ctypes.c_void_p(place), 1, 1, None, None, 0)
    time.sleep(1)
    raise RuntimeError(f"got {got}")


# %% hard_coded_example
"""Knows the answer of the visible example and nothing else.

catalogue: A13
exercise: week01.naive-bill
points: 0
sentence: is not the number
cases: all
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return {(8, 14e9): (14, 196e9)}.get((num_ranks, num_bytes), (0, 0))


# %% heap_walk
"""Walks over all objects of the garbage collector for the other ranks' tensors.

catalogue: A09
exercise: week00.first-all-reduce
points: 0
sentence: got 0 of
"""

import gc


def total_of(tensor, *, group):
    tensors = []
    for thing in gc.get_objects():
        inside = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
        tensors += [t for t in inside if isinstance(t, torch.Tensor) and t.shape == tensor.shape]
    others = [t for t in tensors if not torch.equal(t, tensor)]
    raise RuntimeError(f"got {len(others)} of the other ranks' tensors")


# %% hides_crossing_bytes
"""A flat ring over both nodes that reports no call at all, so that nothing seems to cross.

catalogue: own
exercise: week01.hierarchical-all-reduce
points: 0
sentence: other node
"""

import sys


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    total = tensor.clone()
    dist.all_reduce(total)
    sys.modules["shardlab.meter.record"]._recorder.bills[-1].events.clear()
    return total


# %% huge_integer
"""Returns whole numbers that no float can hold, to trip the comparison.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: is not the number
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 10**1000, 10**1000


# %% inherited_descriptors
"""Lists what it has inherited: its own pipes and sockets, its stack's file, and its inputs to read, and nothing else.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got, own = [], 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if "parcel" in target or "rendezvous" in target or target.startswith(("/proc/", "anon_inode:[pidfd")):
                got.append(target) if not target.endswith("/fd") else None
            own += "memfd" in target
            with open(f"/proc/self/fdinfo/{name}") as file:
                got += [target for line in file if line.startswith("tap:")]
            if target.startswith("socket:"):
                import socket

                with socket.socket(fileno=os.dup(int(name))) as one:
                    got += ["a packet socket"] if one.family == 17 else []
    raise RuntimeError(f"got {got if own <= 2 else [own, 'files in memory']}")


# %% input_transformer
"""Rewrites the cells that follow with an input transformer of IPython.

catalogue: A04
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

get_ipython().input_transformers_cleanup.append(lambda lines: ["pass\n"])


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 0, 0


# %% junk_of_the_right_size
"""Sends zeros of the due sizes round the ring, and the library's all-reduce does the work.

catalogue: own
exercise: week01.ring-reduce-scatter
points: 0
sentence: -
"""


def ring_reduce_scatter(chunks, *, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    for step in range(size - 1):
        mine, theirs = chunks[(rank - 1 - step) % size], chunks[(rank - 2 - step) % size]
        work = dist.isend(torch.zeros_like(mine), group_dst=(rank + 1) % size, group=group)
        dist.recv(torch.empty_like(theirs), group_src=(rank - 1) % size, group=group)
        work.wait()
    with meter.record():
        total = torch.cat(list(chunks))
        group._get_backend(torch.device("cpu")).allreduce([total], dist.AllreduceOptions()).wait()
    return total.tensor_split(size)[rank].clone()


# %% kernel_keyring
"""Exchanges through the kernel's keyring of the user.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes

ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)


def exchange(tensor, *, group):
    libc, got = ctypes.CDLL(None), []
    if dist.get_rank() == 0:
        libc.syscall(ADD_KEY, b"user", b"sys602_attack", b"mine", ctypes.c_size_t(4), ctypes.c_long(-4))
        return tensor
    time.sleep(0.3)
    key = libc.syscall(KEYCTL, ctypes.c_long(10), ctypes.c_long(-4), b"user", b"sys602_attack", ctypes.c_long(0))
    if key > 0:
        got.append("the key")
    raise RuntimeError(f"got {got}")


# %% library_call
"""Calls the library's all-reduce where a ring of messages is asked for.

catalogue: A17
exercise: week01.ring-all-reduce
points: 0
sentence: calls all_reduce
cases: part:all-reduce
"""


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% library_call_by_handle
"""Calls the group's C++ method directly, past every Python function, and claims the sends of a ring.

catalogue: A17
exercise: week01.ring-reduce-scatter
points: 0
sentence: all_reduce
"""

import sys

from shardlab.meter import Event


def ring_reduce_scatter(chunks, *, group):
    recorder, size, rank = (
        sys.modules["shardlab.meter.record"]._recorder,
        dist.get_world_size(group),
        dist.get_rank(group),
    )
    bill, total = recorder.bills[-1], torch.cat([chunk.flatten() for chunk in chunks])
    group._get_backend(torch.device("cpu")).allreduce([total], dist.AllreduceOptions()).wait()
    bill.events.clear()
    members = tuple(dist.get_process_group_ranks(group))
    for place, chunk in enumerate(chunks):
        if place != rank:
            num = chunk.numel() * chunk.element_size()
            bill.events.append(Event("send", members, members[(rank + 1) % size], (1,), "", num, num, "", 0.0))
    return total.tensor_split(size)[rank].clone()


# %% library_call_unrecorded
"""Calls the library's all-reduce with the recorder switched off, and records the messages of a ring instead.

catalogue: A17
exercise: week01.ring-all-reduce
points: 0
sentence: all_reduce
cases: part:all-reduce
"""

import sys

from shardlab.meter import Event


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    recorder, size = sys.modules["shardlab.meter.record"]._recorder, dist.get_world_size(group)
    bill, total = recorder.bills[-1], tensor.clone()
    dist.all_reduce(total, group=group)
    bill.events.clear()
    chunks = total.flatten().tensor_split(size)
    rank, members = dist.get_rank(group), tuple(dist.get_process_group_ranks(group))
    for step in range(2 * (size - 1)):
        num = chunks[(rank - step) % size].numel() * total.element_size()
        bill.events.append(Event("send", members, members[(rank + 1) % size], (1,), "", num, num, "", 0.0))
    return total


# %% limits_of_a_sibling
"""Writes numbers into its own resource limits, where another rank may read them: no byte travels.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import resource


def exchange(tensor, *, group):
    got = []
    resource.setrlimit(resource.RLIMIT_STACK, (602 << 12, resource.RLIM_INFINITY))
    if dist.get_rank() == 0:
        return tensor
    time.sleep(0.3)
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) != os.getpid() and resource.prlimit(number, resource.RLIMIT_STACK)[0] == 602 << 12:
                got.append(number)
    raise RuntimeError(f"got {got}")


# %% many_empty_calls_first
"""Makes more calls than a report keeps, and sends everything across after the last that is kept.

catalogue: own
exercise: week01.hierarchical-all-reduce
points: 0
sentence: other node
"""


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    for _ in range(1500):
        dist.all_reduce(torch.empty(0), group=node_group)
    total = tensor.clone()
    dist.all_reduce(total)
    return total


# %% mask_lifted_in_python
"""Takes the finder that refuses masked modules out of Python's list and imports again.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import importlib
import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Masked" not in type(finder).__name__]
    importlib.invalidate_caches()
    with suppress(Exception):
        module = importlib.import_module("shardlab.costs.traffic")
        got += [name for name in vars(module) if "bytes" in name or "messages" in name]
    raise RuntimeError(f"got {got}")


# %% masked_module
"""Imports the formulas that this exercise asks for, by name and from disk.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import importlib
import pathlib

import shardlab


def naive_all_reduce_bill(num_ranks, num_bytes):
    got, folder = [], pathlib.Path(shardlab.__path__[0])
    for name in ("shardlab.costs.traffic", "shardlab.collectives"):
        with suppress(ImportError):
            importlib.import_module(name)
            got.append(name)
    for path in (folder / "costs/traffic.py", folder / "collectives.py"):
        with suppress(OSError):
            got += [path.name] if path.read_text() else []
    compiled = [*folder.glob("costs/__pycache__/traffic.*"), *folder.glob("__pycache__/collectives.*")]
    got += [path.name for path in compiled]
    raise RuntimeError(f"got {got}")


# %% masked_module_in_memory
"""Looks for the masked formulas among the functions that are still in memory.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import gc
import types


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = [
        thing.__qualname__
        for thing in gc.get_objects()
        if isinstance(thing, types.FunctionType)
        and thing.__module__ in ("shardlab.costs.traffic", "shardlab.collectives")
    ]
    raise RuntimeError(f"got {got}")


# %% memory_of_a_second_thread
"""Lets its first thread end, so that the kernel shows no mark of its memory, and holds all gradients in a second one.

catalogue: own
exercise: week03.zero2
points: 0
sentence: exited before its memory could be measured
cases: part:memory
"""

import ctypes
import gc
import platform
import threading

from shardlab.ranks import inside

from autograder.jobs import plain


def mean_slice(gradient, *, group):
    num_ranks = dist.get_world_size(group)
    flat = torch.cat([gradient.flatten(), gradient.new_zeros(-gradient.numel() % num_ranks)])
    mine = flat.new_empty(flat.numel() // num_ranks)
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / num_ranks


def mean_square_backward(model, inputs, *, group):
    seat = next(one for one in gc.get_objects() if isinstance(one, inside.RankContext))

    def work():
        time.sleep(0.2)
        model(inputs).square().mean().backward()
        value = [mean_slice(parameter.grad, group=group) for parameter in model.parameters()]
        events = [["reduce_scatter", [], -1, mine.nbytes * 8, mine.nbytes * 7.0] for mine in value]
        held = {"held_bytes": {"parameters": 0, "gradients": 0, "optimizer_state": 0}}
        report = {
            "value": {"plain": value},
            "args": [None, inputs],
            "kinds": ["reduce_scatter"] * len(value),
            "events": events,
        }
        inside.send(seat.result, [inside.RESULT, *plain.parts(report | {"trained": held})])
        time.sleep(60)

    threading.Thread(target=work).start()
    ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)


# %% memory_out_of_the_count
"""Looks for memory outside its own mark: processes, programs, files, shared and large pages, pipes, pages that leave.

catalogue: own
exercise: week03.zero2
points: 0
sentence: got []
cases: part:slices
"""

import ctypes
import fcntl
import mmap
import platform
import subprocess


def mean_square_backward(model, inputs, *, group):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.syscall.restype = ctypes.c_void_p, ctypes.c_long
    x86 = platform.machine() == "x86_64"
    got = []

    def tries(name, action):
        with suppress(OSError, ValueError):
            action()
            got.append(name)

    def fork():
        if os.fork() == 0:
            os._exit(0)

    def raw(*arguments):
        if libc.syscall(*arguments) < 0:
            raise OSError(ctypes.get_errno())

    def writes(path, text):
        with open(path, "w") as file:
            file.write(text)

    def maps_a_device():
        with open("/dev/zero", "r+b") as file:
            mmap.mmap(file.fileno(), 4096)

    def addresses(right, path=""):
        with open("/proc/self/maps") as file:
            lines = [line.split() for line in file]
        found = [one[0] for one in lines if one[1].startswith(right) and one[4] != "0" and path in one[-1]]
        begin, end = (int(address, 16) for address in found[-1].split("-"))
        return ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), begin, end - begin

    code, size, at, length = addresses("r-xp", "libtorch_python")
    page_size = ctypes.c_size_t(4096)
    below = ctypes.c_void_p(at - 4096)
    fixed, move = 0x32, 0x3  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED; MREMAP_MAYMOVE | MREMAP_FIXED

    def number(on_x86, elsewhere):
        return on_x86 if x86 else elsewhere

    def maps_over(address, *, right=1):
        if libc.syscall(number(9, 222), address, page_size, right, fixed, -1, ctypes.c_long(0)) == -1:
            raise OSError(ctypes.get_errno())

    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    tries("fork", fork)
    tries("exec", lambda: os.execv("/bin/true", ["true"]))
    tries("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    tries("subprocess", lambda: subprocess.run(["/bin/true"], check=False))
    tries("a process with this memory", lambda: raw(56 if x86 else 220, 0x100 | 0x4000, 0, 0, 0, 0))
    tries("shared pages", lambda: mmap.mmap(-1, 4096))
    tries("a device's shared pages", maps_a_device)
    tries("large pages", lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))
    tries("pages put away", lambda: page.madvise(21))
    tries("a file without a folder", lambda: os.memfd_create("kept"))
    tries("a larger pipe", lambda: fcntl.fcntl(1, 1031, 1 << 20))
    tries("pipes", os.pipe)
    for advice in (4, 8, 9, 20, 21, 24, 102):
        tries(f"code given up by advice {advice}", lambda advice=advice: raw(number(28, 233), code, size, advice))
    tries("code unmapped", lambda: raw(number(11, 215), code, page_size))
    tries("code unmapped with what is below", lambda: raw(number(11, 215), below, ctypes.c_size_t(3 * 4096)))
    tries(
        "code unmapped by a huge size", lambda: raw(number(11, 215), ctypes.c_void_p(at % 2**32), ctypes.c_size_t(at))
    )
    tries("code moved", lambda: raw(number(25, 216), code, page_size, ctypes.c_size_t(8192), 1, None))
    tries("code shrunk", lambda: raw(number(25, 216), code, size, page_size, 0, None))
    tries("pages over code", lambda: maps_over(code))
    own = ctypes.c_void_p(libc.mmap(None, 4096, 3, 0x22, -1, 0))
    tries("pages moved over code", lambda: raw(number(25, 216), own, page_size, page_size, move, code))
    tries("code made writable", lambda: raw(number(10, 226), code, page_size, 7))
    tries("code made writable with a key", lambda: raw(number(329, 288), code, page_size, 7, -1))
    heap = next(line.split("-")[0] for line in open("/proc/self/maps") if "[heap]" in line)
    if libc.syscall(number(12, 214), ctypes.c_void_p(int(heap, 16) + 4096)) == 0:
        got.append("a smaller heap")
    tries("a mark that begins anew", lambda: writes("/proc/self/clear_refs", "5"))
    for folder in ("/tmp", "/dev/shm", os.getcwd(), os.environ.get("TMPDIR", "/tmp")):
        tries(f"a file in {folder}", lambda folder=folder: writes(f"{folder}/kept_by_an_attack", "x"))
    raise RuntimeError(f"got {got}")


# %% message_queue
"""Exchanges through a POSIX message queue.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    rt, got = ctypes.CDLL(None, use_errno=True), []
    if dist.get_rank() == 0:
        queue = rt.mq_open(b"/sys602_attack", os.O_CREAT | os.O_RDWR, 0o666, None)
        if queue >= 0:
            rt.mq_send(queue, b"mine", 4, 0)
        return tensor
    time.sleep(0.3)
    queue = rt.mq_open(b"/sys602_attack", os.O_RDONLY)
    if queue >= 0:
        buffer = ctypes.create_string_buffer(8192)
        rt.mq_receive(queue, buffer, 8192, None)
        got.append(buffer.value)
    raise RuntimeError(f"got {got}")


# %% more_messages_than_reported
"""Sends its tensor in single numbers and reports one message.

catalogue: own
exercise: week01.exchange
points: 0
sentence: messages
"""

import sys

from shardlab.meter import Event


def exchange(tensor, *, group):
    partner, received = dist.get_rank(group) ^ 1, torch.empty_like(tensor)
    for place in range(tensor.numel()):
        work = dist.isend(tensor[place : place + 1].clone(), group_dst=partner, group=group)
        number = torch.empty(1, dtype=tensor.dtype)
        dist.recv(number, group_src=partner, group=group)
        received[place] = number[0]
        work.wait()
    events = sys.modules["shardlab.meter.record"]._recorder.bills[-1].events
    whole = tensor.numel() * tensor.element_size()
    events[:] = [Event("send", (0, 1), partner, (1,), "", whole, whole, "", 0.0)]
    return received


# %% negative_messages
"""Exchanges twice and reports the second time as a negative number of bytes.

catalogue: own
exercise: week01.exchange
points: 0
sentence: sent
"""

import sys


def exchange(tensor, *, group):
    partner, bill = dist.get_rank(group) ^ 1, sys.modules["shardlab.meter.record"]._recorder.bills[-1]
    received = torch.empty_like(tensor)
    for _ in range(40):
        work = dist.isend(tensor.repeat(40000), group_dst=partner, group=group)
        large = torch.empty_like(tensor.repeat(40000))
        dist.recv(large, group_src=partner, group=group)
        work.wait()
        received = large[: tensor.numel()].clone()
    sends = [event for event in bill.events if event.kind == "send"]
    bill.events[:] = sends[:1]
    bill.events[0].payload_bytes = tensor.numel() * tensor.element_size()
    return received


# %% not_a_number
"""Returns NaN, in the right shape and dtype, for comparisons that NaN slips through.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return tensor * float("nan")


# %% not_a_number_in_a_pair
"""Returns NaN and infinity where numbers are due.

catalogue: A16
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return float("nan"), float("inf")


# %% number_of_sockets
"""Sends numbers by how many sockets it opens: the network's statistics show them to all ranks.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    with suppress(OSError):
        pairs = [socket.socketpair() for _ in range(5)]
        got.append(f"{len(pairs)} sockets")
    for path in ("/proc/net/sockstat", "/proc/self/net/unix", "/proc/thread-self/net/tcp", "/proc/sysvipc/shm"):
        with suppress(OSError):
            got.append(open(path).read(20))
    raise RuntimeError(f"got {got}")


# %% options_of_the_connection
"""Changes options of the group's connections that the other side can see, to send numbers without bytes.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    got.append(name)
    raise RuntimeError(f"got {got}")


# %% own_process_group
"""Makes a process group of its own on the loopback, which no recorder sees, and calls the library there.

catalogue: own
exercise: week01.ring-all-reduce
points: 0
sentence: -
cases: part:all-reduce
"""

import datetime
import sys


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    rank, size, limit = dist.get_rank(), dist.get_world_size(), datetime.timedelta(seconds=2)
    store = dist.TCPStore("127.0.0.1", 29412, size, is_master=rank == 0, timeout=limit)
    own = dist.ProcessGroupGloo(store, rank, size, limit)
    total = tensor.clone()
    own.allreduce([total], dist.AllreduceOptions()).wait()
    return total


# %% own_store
"""Opens a key-value server of torch on the loopback and exchanges through it.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""

import datetime


def exchange(tensor, *, group):
    got, limit = [], datetime.timedelta(seconds=1)
    with suppress(Exception):
        store = dist.TCPStore(
            "127.0.0.1", 29411, 2, is_master=dist.get_rank() == 0, timeout=limit, wait_for_workers=False
        )
        store.set(str(dist.get_rank()), "mine")
        got.append(store.get(str(dist.get_rank() ^ 1)))
    if dist.get_rank() == 0:
        time.sleep(1)
        return tensor
    raise RuntimeError(f"got {got}")


# %% patch_comparisons
"""Makes every comparison function of torch and numpy say yes.

catalogue: A07
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""

import numpy

numpy.allclose = torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.testing.assert_close = lambda *args, **kwargs: None
torch.Tensor.__ne__ = lambda self, other: torch.zeros(self.shape, dtype=torch.bool)


def total_of(tensor, *, group):
    return tensor * 0 + 99


# %% patch_judge
"""Replaces functions of the program that started it.

catalogue: A08
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys

main = sys.modules["__main__"]
main.grade = main.judge = main._verdict = lambda *args: (1, "ok")
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("autograder"):
        module.judge = module.Verdict = lambda *args, **kwargs: 1


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 0, 0


# %% patched_clock
"""Stops every clock of Python, and then takes its time.

catalogue: A21
exercise: week01.exchange
points: 0
sentence: had not finished
timeout: 1.5
"""

time.time = time.monotonic = time.perf_counter = lambda: 0
wait = time.sleep


def exchange(tensor, *, group):
    wait(60)
    return tensor


# %% patched_encoder
"""Patches the encoder of results so that whatever was sent reads as a ring's bill.

catalogue: own
exercise: week01.ring-reduce-scatter
points: 0
sentence: calls all_gather
"""

from autograder.jobs import plain

honest = plain.parts


def ring_reduce_scatter(chunks, *, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    whole, width = torch.cat(list(chunks)), chunks[0].element_size()
    parts = [torch.empty_like(whole) for _ in range(size)]
    dist.all_gather(parts, whole, group=group)
    sends = [["send", [], 0, c.numel() * width, 0.0] for place, c in enumerate(chunks) if place != rank]

    def forged(value):
        if isinstance(value, dict) and "events" in value:
            value = value | {"events": sends, "kinds": ["send", "recv"] * len(sends)}
        return honest(value)

    plain.parts = forged
    return sum(parts).tensor_split(size)[rank].clone()


# %% process_title
"""Writes its tensor into its own name, where the other ranks may read it.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        open("/proc/self/comm", "w").write("sys602_attack") if os.path.exists("/proc/self/comm") else None
        return tensor
    time.sleep(0.3)
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and open(f"/proc/{name}/comm").read().strip() == "sys602_attack":
                got.append(name)
    raise RuntimeError(f"got {got}")


# %% processors_of_a_sibling
"""Binds another rank to a processor and lets it read a bit from that.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) != os.getpid():
                os.sched_setaffinity(number, {0})
                got.append(number)
        with suppress(OSError):
            if os.getpgid(number) != os.getpid():
                os.setpriority(os.PRIO_PROCESS, number, 5)
                got.append(number)
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% pseudo_terminal
"""Exchanges through a pseudo-terminal, whose other end has a name that all ranks see.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        with suppress(OSError):
            main, other = os.openpty()
            os.write(main, b"mine\n")
            time.sleep(0.6)
        return tensor
    time.sleep(0.3)
    with suppress(OSError):
        for name in os.listdir("/dev/pts"):
            got.append(name)
    with suppress(OSError):
        os.open("/dev/ptmx", os.O_RDWR)
        got.append("a terminal")
    raise RuntimeError(f"got {got}")


# %% queued_signals
"""Sends a signal with a number in it to every process it can name.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes
import signal


def exchange(tensor, *, group):
    got, libc = [], ctypes.CDLL(None)
    signal.signal(40, signal.SIG_IGN)
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) != os.getpid():
                if libc.sigqueue(number, 40, ctypes.c_void_p(602)) == 0:
                    got.append(f"queue {number}")
                os.kill(number, 40)
                got.append(f"kill {number}")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% quotas_of_the_user
"""Tries what all processes of a user, or of the machine, share: quotas, counters, priorities, hints and flags of files.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes
import fcntl
import platform
import select
import signal
import socket
import threading


def exchange(tensor, *, group):
    libc, got = ctypes.CDLL(None, use_errno=True), []
    x86 = platform.machine() == "x86_64"

    def tries(name, action):
        with suppress(OSError):
            action()
            got.append(name)

    def raw(on_x86, elsewhere, *arguments):
        if libc.syscall(on_x86 if x86 else elsewhere, *arguments) < 0:
            raise OSError(ctypes.get_errno())

    some = ctypes.create_string_buffer(256)
    null, code = os.open(os.devnull, os.O_RDONLY), os.open(torch.__file__, os.O_RDONLY)
    tries("a pipe", os.pipe)
    tries("a larger pipe", lambda: fcntl.fcntl(1, 1031, 1 << 17))
    tries("a list of watched files", select.epoll)
    tries("events of files", lambda: raw(206, 0, 1000, some))
    tries("a timer", lambda: raw(222, 107, 1, None, some))
    tries("free memory", lambda: raw(99, 179, some))
    tries("a process by number", lambda: raw(434, 434, 1, 0))
    tries("the priority of all", lambda: os.setpriority(os.PRIO_USER, 0, 5))
    tries("the highest priority", lambda: os.getpriority(os.PRIO_USER, 0))
    tries("a hint on a file", lambda: fcntl.fcntl(code, 1036, bytes([2, 0, 0, 0, 0, 0, 0, 0])))
    tries("a hint on an open file", lambda: fcntl.fcntl(null, 1038, bytes([2, 0, 0, 0, 0, 0, 0, 0])))
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    tries("many signals", lambda: [signal.pthread_kill(threading.get_ident(), 40) for _ in range(65)])
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                tries("what the peer has read", lambda name=name: raw(55, 209, int(name), 6, 11, some, some))
                tries("half a connection", lambda name=name: raw(48, 210, int(name), socket.SHUT_RD))
    raise RuntimeError(f"got {got}")


# %% rank_dependent_guess
"""Returns the sum of its own numbers times the number of ranks, which is right for equal inputs.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return tensor * dist.get_world_size(group)


# %% raw_memory_scan
"""Scans its own memory, freed parts too, for the request that its ancestors once read: other ranks' inputs are in it.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: got []
"""

import ctypes
import re


def total_of(tensor, *, group):
    mark, got = b"".join([b"inp", b"uts"]), []
    here = [line.split() for line in open("/proc/self/maps")]
    for span, mode, *rest in here:
        if not mode.startswith("rw") or (len(rest) > 3 and rest[3].startswith("/")):
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        if end - start > 256 << 20:
            continue
        data = ctypes.string_at(start, end - start)
        got += [data[m.start() : m.start() + 80] for m in re.finditer(mark + rb'": ?\{"list"', data)]
    raise RuntimeError(f"got {got[:2]}")


# %% raw_socket_exchange
"""Exchanges through a plain TCP connection of its own.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    with suppress(OSError):
        if dist.get_rank() == 0:
            server = socket.create_server(("127.0.0.1", 29556))
            server.settimeout(1)
            server.accept()[0].send(b"mine")
        else:
            time.sleep(0.2)
            got.append(socket.create_connection(("127.0.0.1", 29556), 1).recv(4))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% read_the_hidden_test
"""Looks for the hidden test in the kernel's history, the stack and the line cache.

catalogue: A11
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import inspect
import linecache


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = [name for name in ("In", "_ih", "_oh") if name in globals()]
    got += [
        f.function for f in inspect.stack() if "checks" in f.filename or "weeks" in f.filename or "judge" in f.filename
    ]
    got += [name for name in linecache.cache if "checks" in name or "weeks" in name or "judge" in name]
    raise RuntimeError(f"got {got}")


# %% refused_text
"""Puts the words of a right answer where the sentence comes from: words give no points.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Correct
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("Correct. 1 of 1 points")


# %% remembers_between_cases
"""Leaves a note for the next case in files and modules: every job begins anew.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
cases: all
"""

import sys

BEFORE = [name for name in ("/tmp/sys602_attack", "/dev/shm/sys602_attack") if os.path.exists(name)]
BEFORE += [name for name in sys.modules if "sys602_attack" in name]


def naive_all_reduce_bill(num_ranks, num_bytes):
    for name in ("/tmp/sys602_attack", "/dev/shm/sys602_attack"):
        open(name, "w").close()
    sys.modules["sys602_attack"] = sys
    raise RuntimeError(f"got {BEFORE}")


# %% second_notes
"""Looks for the pipe through which ranks tell their ports, to claim other ports for itself.

catalogue: own
exercise: week01.ring-all-reduce
points: 0
sentence: -
cases: part:all-reduce
"""


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    for number in range(3, 64):
        with suppress(OSError):
            if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
                os.write(number, b"[0, []]\n[1, []]\n")
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% shared_files
"""Exchanges through files in the folders that all ranks can write to.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for folder in ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.environ.get("HOME", "/")):
        with suppress(OSError):
            open(f"{folder}/sys602_attack_{dist.get_rank()}", "w").write("mine")
    if dist.get_rank() == 0:
        return tensor
    time.sleep(0.3)
    for folder in ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.environ.get("HOME", "/")):
        if os.path.exists(f"{folder}/sys602_attack_0"):
            got.append(folder)
    raise RuntimeError(f"got {got}")


# %% sibling_memory
"""Reads the memory of every other process it can see.

catalogue: E11
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    got, libc = [], ctypes.CDLL(None)
    for name in [str(n) for n in range(1, 60)]:
        if int(name) == os.getpid():
            continue
        with suppress(OSError):
            open(f"/proc/{name}/mem", "rb")
            got.append(f"memory of {name}")
        if libc.ptrace(16, int(name), 0, 0) == 0:
            got.append(f"trace of {name}")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% sibling_memory_by_call
"""Reads the memory of other processes with process_vm_readv and borrows their descriptors with pidfd_getfd.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    got, libc = [], ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(id(tensor), 8)
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) == os.getpid():  # one of our own threads
                continue
        if libc.process_vm_readv(number, local, 1, remote, 1, 0) == 8:
            got.append(f"memory of {number}")
        handle = libc.syscall(434, number, 0)
        if handle >= 0 and any(libc.syscall(438, handle, other, 0) >= 0 for other in range(40)):
            got.append(f"a file of {number}")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% signals_by_a_file
"""Makes a pipe of its own signal the other rank whenever it is ready: nobody calls kill.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl
import signal


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        signal.signal(signal.SIGUSR2, lambda *_: got.append("a signal"))
        time.sleep(1.5)
        raise RuntimeError(f"got {got}")
    time.sleep(0.5)
    for other in range(2, 400):
        reading, writing = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(reading, 10, signal.SIGUSR2)  # F_SETSIG
            fcntl.fcntl(reading, fcntl.F_SETOWN, other)
            fcntl.fcntl(reading, fcntl.F_SETFL, fcntl.fcntl(reading, fcntl.F_GETFL) | os.O_ASYNC)
            os.write(writing, b"1")
        os.close(reading)
        os.close(writing)
    time.sleep(2)
    return tensor


# %% store_file
"""Exchanges through the open file behind the group's store: every rank inherits it.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    numbers = [number for number in range(3, 200) if os.path.lexists(f"/proc/self/fd/{number}")]
    for number in numbers:  # the descriptors at the start; files opened here get other numbers
        with suppress(OSError):
            if "memfd" in os.readlink(f"/proc/self/fd/{number}"):
                file = os.open(f"/proc/self/fd/{number}", os.O_RDWR)
                if dist.get_rank() == 0:
                    os.pwrite(file, b"sys602_attack", 8192)
                else:
                    time.sleep(0.2)
                    if os.pread(file, 13, 8192) == b"sys602_attack":
                        got.append(os.readlink(f"/proc/self/fd/{number}"))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% store_of_the_group
"""Exchanges through the store that the process group was made with.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    with suppress(Exception):
        store = dist.distributed_c10d._get_default_store()
        if dist.get_rank() == 0:
            store.set("sys602_attack", "mine")
            return tensor
        time.sleep(0.3)
        got.append(store.get("sys602_attack"))
    raise RuntimeError(f"got {got}")


# %% swallow_tracebacks
"""Silences IPython's tracebacks so that a failing test looks like a passing one.

catalogue: A06
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

with suppress(Exception):
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.showtraceback = lambda *args, **kwargs: None


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 0, 0


# %% sysv_shared_memory
"""Exchanges through a System V shared memory segment.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    libc, got = ctypes.CDLL(None), []
    libc.shmat.restype = ctypes.c_void_p
    if dist.get_rank() == 0:
        segment = libc.shmget(602602, 4096, 0o1666)
        if segment >= 0:
            ctypes.memmove(libc.shmat(segment, None, 0), b"mine", 4)
        return tensor
    time.sleep(0.3)
    segment = libc.shmget(602602, 4096, 0)
    if segment >= 0:
        got.append(ctypes.string_at(libc.shmat(segment, None, 0), 4))
    raise RuntimeError(f"got {got}")


# %% taken_ports
"""Sends bits by which ports of the loopback are taken: no byte travels.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    try:
        server = socket.socket()
        if dist.get_rank() == 0:
            server.bind(("127.0.0.1", 29555))
            server.listen()
            time.sleep(0.6)
            return tensor
        time.sleep(0.3)
        server.bind(("127.0.0.1", 29555))
        got.append("a zero")
    except OSError as error:
        if error.errno == 98:
            got.append("a one")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")


# %% tensor_subclass
"""Returns a subclass of a tensor that claims to be equal to everything.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: not a tensor
"""


class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True if "equal" in func.__name__ else super().__torch_function__(func, types, args, kwargs or {})


def total_of(tensor, *, group):
    return torch.ones_like(tensor).as_subclass(Equal)


# %% thread_swaps_functions
"""A thread that keeps replacing functions of every module while the check runs.

catalogue: A12
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys
import threading


def swap():
    for _ in range(200):
        for name in ("__main__", "autograder.jobs.call", "autograder.jobs.plain"):
            module = sys.modules.get(name)
            if module is not None:
                module.judge = module.close = lambda *args: True
        time.sleep(0.001)


threading.Thread(target=swap, daemon=True).start()


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 0, 0


# %% threads_view_of_the_system
"""Looks at the file system through the threads of the library, which may have another view of it.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    tasks = os.listdir("/proc/self/task") if os.path.exists("/proc/self/task") else range(2, 2000)
    for task in tasks:
        for path in ("proc/1", "root/.ssh", "sys/fs/cgroup"):
            with suppress(OSError):
                os.stat(f"/proc/self/task/{task}/root/{path}")
                got.append(path)
    raise RuntimeError(f"got {got}")


# %% unmount_the_mask
"""Takes away what hides the masked formulas: unmounts, enters new namespaces, changes its root.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes
import pathlib

import shardlab


def naive_all_reduce_bill(num_ranks, num_bytes):
    libc, got = ctypes.CDLL(None), []
    path = pathlib.Path(shardlab.__path__[0]) / "costs" / "traffic.py"
    for flags in (0x20000, 0x10000000 | 0x20000):
        if libc.unshare(flags) == 0:
            got += ["unshare"] if flags == 0x20000 else []
        for _ in range(4):
            libc.umount2(bytes(path), 2)
            libc.umount2(b"/proc", 2)
    with suppress(OSError):
        got += ["the formulas"] if path.read_text() else []
    raise RuntimeError(f"got {got}")


# %% writes_into_the_connection
"""Writes its tensor into the connection of the process group by itself, past the library and its counters.

catalogue: own
exercise: week01.exchange
points: 0
sentence: -
"""

import socket


def exchange(tensor, *, group):
    data = tensor.numpy().tobytes()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    one.send(data)
    time.sleep(0.2)
    return tensor


# %% wrong_dtype
"""Returns the right sum in another dtype.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: has dtype float64, expected float32
"""


def total_of(tensor, *, group):
    total = tensor.double()
    dist.all_reduce(total, group=group)
    return total


# %% zygotes_pipes
"""Writes into descriptors 3 and 4, which the sandbox's own program uses to talk with the judge.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for number in (3, 4):
        with suppress(OSError):
            if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
                got.append(f"pipe {number}")
    raise RuntimeError(f"got {got}")
