"""Rendezvous of torchrun's ranks, also after a restart; and whether shardlab.run started this torchrun.

torchrun shares its own store with the ranks and keeps it when it restarts them: a rank that looks up its peers there
finds the addresses of dead ones (torch 2.13, elastic/rendezvous/dynamic_rendezvous.py). Here the ranks of an attempt
first agree on a name that no earlier attempt used, and then meet under that name.
"""

from __future__ import annotations

import datetime
import os
import time
import uuid

import torch.distributed as dist

# Set this for torchrun itself to get a new store for each attempt.
OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
LOOK_EVERY = 0.02  # seconds
OURS = "SHARDLAB_RUN_ID"  # environment variable with the run id of the torchrun that shardlab.run started


def claim_torchrun() -> None:
    """Record in the environment, also for child processes, that shardlab.run started this torchrun."""
    os.environ[OURS] = os.environ.get("TORCHELASTIC_RUN_ID", "")


def refuse_inside_torchrun() -> None:
    """Raise RuntimeError in one of several processes that the user's own torchrun started.

    A rank of shardlab.run may start more ranks, because its function asks for them.
    """
    run, size = os.environ.get("TORCHELASTIC_RUN_ID"), os.environ.get("WORLD_SIZE", "1")
    if run is None or run == os.environ.get(OURS) or size == "1":
        return
    raise RuntimeError(
        f"rank {os.environ.get('RANK', '?')} of torchrun called shardlab.run, which starts ranks itself: each of the "
        f"{size} ranks would start a separate world. Start this script with `python`, or keep torchrun and join "
        "its ranks instead: `with shardlab.ranks.inside.torchrun_group() as group:`"
    )


def meet(backend: str, timeout: float) -> None:
    """Join the world of torchrun's ranks; collectives time out after `timeout` seconds."""
    limit, store = datetime.timedelta(seconds=timeout), fresh_store(timeout)
    if store is None:
        dist.init_process_group(backend, timeout=limit)
    else:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)


def fresh_store(timeout: float) -> dist.Store | None:
    """A store only for this attempt's ranks, or None if torchrun gives each attempt a new one.

    Raises dist.DistStoreError if the ranks do not find each other within `timeout` seconds.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        shared = dist.TCPStore(host, port, is_master=False, timeout=datetime.timedelta(seconds=timeout))
        return dist.PrefixStore(agreed_name(shared, rank, size, timeout), shared)
    except dist.DistError as error:
        raise dist.DistStoreError(
            f"rank {rank} timed out: it did not find the other ranks at {host}:{port} within {timeout:g} s. If nodes "
            "joined or left, torchrun still uses the store of an earlier attempt: start every torchrun with "
            f"{OWN_STORE}=1"
        ) from error


def agreed_name(store: dist.Store, rank: int, size: int, timeout: float) -> str:
    """A name that all ranks of this attempt know and no earlier attempt used.

    Each rank writes a unique number. The first rank answers every number it sees (also those of dead ranks) with the
    name, until all other ranks have read their answer.
    """
    number, deadline = uuid.uuid4().hex, time.monotonic() + timeout
    store.set(_place_of(rank), number)
    if rank > 0:
        answer = f"shardlab/answer/{number}"
        store.wait([answer], datetime.timedelta(seconds=timeout))
        name = store.get(answer).decode()
        store.add(f"{name}/read", 1)
        return name
    name = f"shardlab/attempt/{number}"
    answered: set[str] = set()
    while store.add(f"{name}/read", 0) < size - 1:
        for place in map(_place_of, range(1, size)):
            if store.check([place]) and (other := store.get(place).decode()) not in answered:
                store.set(f"shardlab/answer/{other}", name)
                answered.add(other)
        if time.monotonic() > deadline:
            raise dist.DistStoreError("the other ranks did not answer")
        time.sleep(LOOK_EVERY)
    return name


def _place_of(rank: int) -> str:
    return f"shardlab/rank/{rank}"
