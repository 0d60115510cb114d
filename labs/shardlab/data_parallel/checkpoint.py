"""Save what N ranks hold in shards, and load it on M.

A checkpoint is a folder `step-00000020` with torch's distributed checkpoint format (DCP) and `contents.json`. It gets
that name when it is complete: a rank that dies in the middle of a save leaves the one before as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer

CONTENTS = "contents.json"


def save(zero: ShardedOptimizer, folder: str | os.PathLike, *, step: int) -> Path:
    """Write masters, optimizer state and options after step number `step`; every rank calls, with the same folder.

    1. write the shards into a folder with a passing name  2. list what it holds  3. give it its name
    """
    _refuse_whole(zero)
    target = Path(folder, f"step-{step:08}")
    draft = target.with_name(f".{target.name}.part")
    if zero.replicas is None or dist.get_rank(zero.replicas) == 0:  # other replicas hold the same
        if dist.get_rank(zero.group) == 0:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        dist.barrier(group=zero.group)
        dcp.save(_state(zero), checkpoint_id=draft, process_group=zero.group)
        if dist.get_rank(zero.group) == 0:
            sizes = {path.name: path.stat().st_size for path in sorted(draft.iterdir())}
            contents = {"step": step, "vectors": _layout(zero), "options": _options(zero), "files": sizes}
            (draft / CONTENTS).write_text(json.dumps(contents, indent=1))
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        dist.barrier(group=zero.group)
    if zero.replicas is not None:
        dist.barrier(group=zero.replicas)
    return target


def temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder for checkpoints that is gone at the end of its `with`."""
    return tempfile.TemporaryDirectory(prefix="checkpoints-")


def latest(folder: str | os.PathLike) -> Path:
    """The complete checkpoint with the highest step. Raises ValueError when there is none."""
    found = sorted(path.parent for path in Path(folder).glob(f"step-*/{CONTENTS}"))
    if not found:
        raise ValueError(f"there is no complete checkpoint in {folder}: save one first")
    return found[-1]


def load(zero: ShardedOptimizer, checkpoint: str | os.PathLike) -> int:
    """Set weights, optimizer state and options from a checkpoint, saved on any number of ranks; returns its step.

    Raises ValueError, on every rank alike and before anything is changed, for a checkpoint of another model or layout
    and for one that is cut short.
    """
    _refuse_whole(zero)
    contents = _checked(zero, Path(checkpoint))
    saved = contents["vectors"]
    for vector, kept in zip(zero.vectors, saved, strict=True):
        zero.local.state[vector.master] = {
            name: torch.zeros_like(vector.master) if is_sliced else torch.zeros(()) for name, is_sliced in kept["state"]
        }
    state = _state(zero)
    dcp.load(state, checkpoint_id=checkpoint, process_group=zero.group)
    for group, options in zip(zero.param_groups, contents["options"], strict=True):
        group.update(options)
    zero.all_gather_params()
    return contents["step"]


def _refuse_whole(zero: ShardedOptimizer) -> None:
    if not all(vector.layout.cuts_matrices for vector in zero.vectors):
        raise ValueError("a layout of whole parameters has no vectors to save: save model and optimizer of each rank")


def _state(zero: ShardedOptimizer) -> dict[str, Any]:
    """The saved tensors by name: shards as parts of a whole vector. The tensors are the optimizer's own memory."""
    group = zero.group if zero.group is not None else dist.distributed_c10d._get_default_group()
    mesh = DeviceMesh.from_group(group, zero.vectors[0].master.device.type)
    state: dict[str, Any] = {}
    for number, vector in enumerate(zero.vectors):
        state[f"{number}.master"] = _part(vector.master.detach(), vector, mesh)
        for name, value in zero.local.state[vector.master].items():
            state[f"{number}.{name}"] = _part(value, vector, mesh) if _is_sliced(value, vector) else value
    return state


def _part(shard: Tensor, vector: FlatParameters, mesh: DeviceMesh) -> DTensor:
    """A shard as this rank's part of the whole vector; padding belongs to nobody."""
    begin = dist.get_rank(vector.group) * vector.shard_elements
    real = max(0, min(vector.shard_elements, vector.num_elements - begin))
    return DTensor.from_local(
        shard[:real], mesh, [Shard(0)], run_check=False, shape=torch.Size([vector.num_elements]), stride=(1,)
    )


def _is_sliced(value: Any, vector: FlatParameters) -> bool:
    return isinstance(value, Tensor) and value.shape == vector.master.shape


def _layout(zero: ShardedOptimizer) -> list[dict[str, Any]]:
    """Of each vector the parameters in it, the master's dtype and the names of the optimizer's states."""
    names = {parameter: name for name, parameter in zero.module.named_parameters()}
    return [
        {
            "parameters": [[names[parameter], list(parameter.shape)] for parameter in vector.parameters],
            "dtype": str(vector.master.dtype),
            "state": [[name, _is_sliced(value, vector)] for name, value in zero.local.state[vector.master].items()],
        }
        for vector in zero.vectors
    ]


def _options(zero: ShardedOptimizer) -> list[dict[str, Any]]:
    """Learning rate and so on of each group: what JSON can hold."""
    kept = (bool, int, float, str, list, tuple, type(None))
    return [
        {name: v for name, v in group.items() if name != "params" and isinstance(v, kept)}
        for group in zero.param_groups
    ]


def _checked(zero: ShardedOptimizer, checkpoint: Path) -> dict[str, Any]:
    """The contents of a checkpoint that fits."""
    try:
        contents = json.loads((checkpoint / CONTENTS).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint} is not a whole checkpoint: its {CONTENTS} cannot be read ({error})") from None
    for name, size in contents["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != size:
            raise ValueError(f"{checkpoint} is cut short: {name} should have {size} bytes. Load the one before it.")
    ours = [(vector["parameters"], vector["dtype"]) for vector in _layout(zero)]
    theirs = [(vector["parameters"], vector["dtype"]) for vector in contents["vectors"]]
    if ours != theirs:
        raise ValueError(
            f"{checkpoint} is of another model or cut in other vectors: {_first_other(theirs, ours)}. "
            "Build the same model with the same units, buckets and dtypes; only the number of ranks may differ."
        )
    return contents


def _first_other(theirs: list, ours: list) -> str:
    for saved, here in zip(theirs, ours, strict=False):
        if saved != here:
            return f"a vector of {saved[0][0][0]} ({saved[1]}) where this model has {here[0][0][0]} ({here[1]})"
    return f"{len(theirs)} vectors where this model has {len(ours)}"
