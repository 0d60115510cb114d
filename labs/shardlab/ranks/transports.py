"""Choose how ranks communicate: NCCL with one GPU per rank, NCCL with all ranks on one GPU, or gloo on CPUs."""

from __future__ import annotations

import ctypes
import os
import socket

GLOO, NCCL, NCCL_SHARED = "gloo", "nccl", "nccl-shared"
MULTI_RANK_NCCL = (2, 30)  # the first NCCL that accepts two ranks on one GPU


def choose_transport(num_ranks: int) -> str:
    """The fastest transport that this machine offers for `num_ranks` ranks.

    `nccl` needs one GPU per rank; `nccl-shared` puts all ranks on one GPU, which NCCL allows since 2.30; `gloo` always
    works. The driver is queried (through the library behind `nvidia-smi`) only if torch was built with CUDA.
    """
    num_gpus = count_gpus()
    if num_gpus >= num_ranks:
        return NCCL
    if num_gpus >= 1 and nccl_version() >= MULTI_RANK_NCCL:
        return NCCL_SHARED
    return GLOO


def count_gpus() -> int:
    """How many CUDA devices torch could use, without initializing CUDA (a forked rank could not do so again)."""
    import torch

    return torch.cuda.device_count() if torch.backends.cuda.is_built() else 0


def nccl_version() -> tuple[int, ...]:
    """The version of the loaded NCCL, which may be newer than the one torch was built with; (0,) if there is none."""
    import torch

    if not torch.backends.cuda.is_built() or not torch.distributed.is_nccl_available():
        return (0,)
    number = ctypes.c_int()
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    except OSError:  # linked into torch itself
        from torch.cuda import nccl

        return tuple(int(part) for part in nccl.version())
    return number.value // 10000, number.value // 100 % 100, number.value % 100  # 23203 is 2.32.3


def check_transport(transport: str | None, num_ranks: int) -> str:
    """`transport`, or the fastest one for None; raises ValueError that names the transports that work here."""
    chosen = choose_transport(num_ranks)
    if transport is None:
        return chosen
    possible = [chosen, GLOO] if chosen != GLOO else [GLOO]
    if transport not in possible:
        raise ValueError(f"transport={transport!r}: for {num_ranks} ranks this machine has {' or '.join(possible)}")
    return transport


def environment(transport: str) -> dict[str, str]:
    """Environment variables for the ranks: gloo on the loopback interface, NCCL with few channels on a shared GPU."""
    if transport == GLOO:
        return {"GLOO_SOCKET_IFNAME": loopback_name()}
    if transport == NCCL_SHARED:
        # All ranks' channels must be resident together, or a large all-reduce waits forever.
        return {
            "NCCL_MULTI_RANK_GPU_ENABLE": "1",
            "NCCL_MAX_CTAS": "8",
            "NCCL_MAX_NCHANNELS": "8",
            "NCCL_NVLS_ENABLE": "0",
        }
    return {}


def interface_towards(host: str) -> str:
    """The network interface through which this machine reaches `host`; sends no packet.

    On the machine that `host` names, this is the interface that has the address of `host`.
    """
    import psutil

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        own = probe.getsockname()[0]
    addresses = {entry.address: name for name, entries in psutil.net_if_addrs().items() for entry in entries}
    if own not in addresses:
        raise RuntimeError(f"no interface has the address {own}: name one in GLOO_SOCKET_IFNAME")
    return addresses[own]


def loopback_name() -> str:
    """The loopback interface: `lo` on Linux, `lo0` on macOS. Without it gloo resolves the host name: up to 35 s."""
    names = [name for _, name in socket.if_nameindex()]
    return os.environ.get("GLOO_SOCKET_IFNAME") or next((name for name in ("lo", "lo0") if name in names), names[0])
