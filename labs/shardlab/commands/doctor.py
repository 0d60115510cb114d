"""`shardlab doctor`: check what this machine has for the course and how to fix what it lacks.

The checks in `machine` take no time. The ones below import torch and end with a real all-reduce. Other packages add
checks through the entry point group `shardlab.doctor`.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib import metadata

from shardlab.commands.machine import NOTE, OK, PROBLEM, QUICK, Check, Finding

__all__ = ["NOTE", "OK", "PROBLEM", "Finding", "examine"]

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
