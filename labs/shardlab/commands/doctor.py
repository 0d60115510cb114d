"""`shardlab doctor`: check what this machine has for the course and how to fix what it lacks.

A check is a function that takes no arguments and returns a `Finding`. The first ones take no time; the last import
torch and end with a real all-reduce. Other packages add checks through the entry point group `shardlab.doctor`.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

OK, NOTE, PROBLEM = "ok", "note", "problem"
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """The result of one check: its name, what it found, how bad that is and how to fix it."""

    name: str
    value: str
    state: str = OK
    advice: str = ""


Check = Callable[[], Finding]


def python() -> Finding:
    """The running interpreter."""
    return Finding("Python", f"{platform.python_version()} at {sys.executable}")


def torch_version() -> Finding:
    """The installed torch version, read without importing torch."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("torch", "not installed", PROBLEM, "run `make setup`, or pip install -c constraints.txt -e .")
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < (2, 13):
        return Finding("torch", version, PROBLEM, "the course needs torch 2.13 or newer: run `make setup` again")
    return Finding("torch", version)


def cores() -> Finding:
    """Cores available to this process."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < 2:
        return Finding("cores", str(count), NOTE, "ranks take turns: results and bytes are right, times are not")
    return Finding("cores", str(count))


def memory() -> Finding:
    """Free memory, within the container's limit if there is one."""
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    limit, used = (_container_number(name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None and limit < total:
        total, free = limit, min(free, limit - used)
    value = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    if free < GIB / 2:
        return Finding(
            "memory",
            value,
            PROBLEM,
            "four ranks need half a GiB: close other programs or give the container more memory",
        )
    if free < 2 * GIB:
        return Finding("memory", value, NOTE, "close other programs before you run eight ranks")
    return Finding("memory", value)


def _container_number(name: str) -> int | None:
    """A number from this process's control group (version 2); None if there is none, or no limit."""
    try:
        with open(f"/sys/fs/cgroup/{name}") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def shared_memory() -> Finding:
    """/dev/shm, which NCCL and data loaders use. Containers often have only 64 MB."""
    if not os.path.isdir("/dev/shm"):
        return Finding("shared memory", "no /dev/shm here; none needed")
    usage = shutil.disk_usage("/dev/shm")
    value = f"{usage.free / GIB:.2f} of {usage.total / GIB:.2f} GiB free"
    if usage.free < 2**26:
        return Finding("shared memory", value, NOTE, "ranks on GPUs need more: docker run --shm-size=1g ...")
    return Finding("shared memory", value)


def temporary_folder() -> Finding:
    """Whether the folder for temporary files is writable and has free space."""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryFile() as file:
            file.write(b"1")
    except OSError as error:
        return Finding("temporary folder", str(error), PROBLEM, "set TMPDIR to a folder that you can write to")
    free = shutil.disk_usage(folder).free
    value = f"{folder}, {free / GIB:.1f} GiB free"
    return Finding(
        "temporary folder", value, *([] if free > GIB / 2 else [NOTE, "free some disk space, or set TMPDIR"])
    )


def loopback() -> Finding:
    """The loopback interface, which all ranks on one machine communicate over."""
    from shardlab.ranks.transports import loopback_name

    name = loopback_name()
    if not name.startswith("lo"):
        return Finding("loopback", f"none; using {name}", PROBLEM, "bring it up: ip link set lo up")
    return Finding("loopback", name)


def free_port() -> Finding:
    """Whether a port of 127.0.0.1 can be opened and reached."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(2.0)
            with socket.create_connection(server.getsockname(), timeout=2.0):
                server.accept()[0].close()
            return Finding("ports", f"127.0.0.1:{server.getsockname()[1]} opened and reached")
    except OSError as error:
        return Finding(
            "ports", str(error), PROBLEM, "ranks cannot connect: allow connections to 127.0.0.1 in the firewall"
        )


def host_name() -> Finding:
    """Whether this machine's host name resolves. If it does not, gloo without our settings waits 35 s."""
    name, answer = socket.gethostname(), []
    asking = threading.Thread(target=lambda: answer.append(_address_of(name)), daemon=True)
    asking.start()
    asking.join(2.0)
    if answer and answer[0]:
        return Finding("host name", f"{name} is {answer[0]}")
    advice = "the course does not need one; to run torchrun yourself, set GLOO_SOCKET_IFNAME to the loopback name"
    return Finding("host name", f"{name} has no address", NOTE, advice)


def _address_of(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""


QUICK: list[Check] = [
    python,
    torch_version,
    cores,
    memory,
    shared_memory,
    temporary_folder,
    loopback,
    free_port,
    host_name,
]


ENTRY_POINTS = "shardlab.doctor"
NUM_ELEMENTS = 1000  # float32, in the measured all-reduce


def examine(brief: bool = False) -> Iterator[Finding]:
    """Run the checks one by one; `brief` runs only the instant ones. A check that raises becomes a finding."""
    for check in [*QUICK, *([] if brief else [*_checks_of_others(), *THOROUGH])]:
        try:
            yield check()
        except Exception as error:
            name = check.__name__.replace("_", " ")
            yield Finding(name, f"this check failed: {error}", NOTE, "please report this as a bug of `shardlab doctor`")


def _checks_of_others() -> list[Check]:
    points = metadata.entry_points(group=ENTRY_POINTS)
    return [_loaded(point) for point in points]


def _loaded(point: metadata.EntryPoint) -> Check:
    """Load a check only when its turn comes, so that failing to load it is reported as a finding too."""

    def check() -> Finding:
        return point.load()()

    check.__name__ = point.name
    return check


def gpus() -> Finding:
    """GPUs that torch can use, and GPUs that it cannot use. Does not initialize CUDA."""
    from shardlab.ranks import mps
    from shardlab.ranks.transports import count_gpus, nccl_version

    present = _gpus_of_the_driver()
    if (usable := count_gpus()) > 0:
        value = f"{', '.join(present) or usable}; NCCL {'.'.join(map(str, nccl_version()))}"
        if shutil.which(mps.PROGRAM):
            return Finding("GPUs", f"{value}; MPS")
        return Finding(
            "GPUs", f"{value}; no MPS", NOTE, "ranks that share a GPU will take turns, so measured times mean little"
        )
    if present:
        advice = "this torch cannot use them: `make lab GPU=1` installs one that can"
        return Finding("GPUs", ", ".join(present), NOTE, advice)
    return Finding("GPUs", "none; every week runs without one")


def _gpus_of_the_driver() -> list[str]:
    """GPU names as listed by the driver; [] if there is no driver."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.split("\n")[:-1] if answer.returncode == 0 else []


def transport() -> Finding:
    """The transport that two and four ranks would use here."""
    from shardlab.ranks.transports import choose_transport

    return Finding("transport", ", ".join(f"{ranks} ranks: {choose_transport(ranks)}" for ranks in (2, 4)))


def chinese_font() -> Finding:
    """A font with Chinese characters, for figure labels."""
    from shardlab.figures.palette import fonts

    found = [font for font in fonts() if font != "DejaVu Sans"]
    if found:
        return Finding("Chinese font", found[0])
    advice = "labels in Chinese would show boxes; on Debian and Ubuntu: apt install fonts-wqy-microhei"
    return Finding("Chinese font", "none", NOTE, advice)


def all_reduce() -> Finding:
    """A real all-reduce on two ranks, comparing the measured bytes with the formula."""
    import shardlab
    from shardlab.costs.traffic import ring_all_reduce_bytes

    predicted = ring_all_reduce_bytes(2, 4 * NUM_ELEMENTS)
    try:
        shardlab.run(measured_bytes, NUM_ELEMENTS, ranks=2, timeout=60)
        begin = time.monotonic()
        measured = shardlab.run(measured_bytes, NUM_ELEMENTS, ranks=2)
        seconds = time.monotonic() - begin
    except Exception as error:  # if ranks do not run, for whatever reason, that is a problem
        advice = (
            "ranks do not work here; fix the problems above first, or send us the output of `shardlab doctor --json`"
        )
        return Finding("2 real ranks", str(error), PROBLEM, advice)
    value = f"all-reduce in {seconds:.2f} s; a rank sent {measured[0]:.0f} bytes, formula: {predicted:.0f}"
    if any(sent != predicted for sent in measured):
        return Finding("2 real ranks", value, PROBLEM, "the meter disagrees with the formula: please report this")
    return Finding("2 real ranks", value)


def measured_bytes(num_elements: int) -> float:
    """Run inside a rank: all-reduce `num_elements` ones, check the sum and return the bytes on this rank's bill."""
    import torch
    import torch.distributed as dist

    from shardlab import meter

    on_gpu = "nccl" in dist.get_backend_config() and torch.cuda.is_available()
    ones = torch.ones(num_elements, device="cuda" if on_gpu else "cpu")
    with meter.record() as bill:
        dist.all_reduce(ones)
    if not bool((ones == dist.get_world_size()).all()):
        raise RuntimeError(f"the sum of {dist.get_world_size()} ones is {ones[0].item()}")
    return bill.sent_bytes


THOROUGH: list[Check] = [gpus, transport, chinese_font, all_reduce]
