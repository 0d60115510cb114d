"""Save the shards of N ranks, and load them on M ranks.

A checkpoint is a folder `step-00000020` in torch's distributed checkpoint format (DCP), plus `contents.json`. It gets
this name only once it is complete. If a rank dies during a save, the previous checkpoint is unchanged.
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
    """Write masters, optimizer state and options after step number `step`. Every rank must call it, same folder.

    1. write the shards into a temporary folder  2. list its contents  3. rename the folder into place
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
    """A folder for checkpoints that is deleted at the end of its `with` block."""
    return tempfile.TemporaryDirectory(prefix="checkpoints-")


def latest(folder: str | os.PathLike) -> Path:
    """The complete checkpoint with the highest step. Raises ValueError if there is none."""
    found = sorted(path.parent for path in Path(folder).glob(f"step-*/{CONTENTS}"))
    if not found:
        raise ValueError(f"there is no complete checkpoint in {folder}: save one first")
    return found[-1]


def load(zero: ShardedOptimizer, checkpoint: str | os.PathLike) -> int:
    """Set weights, optimizer state and options from a checkpoint saved on any number of ranks. Returns its step.

    Raises the same ValueError on every rank, before anything is changed, if the checkpoint belongs to another model or
    layout, or is truncated.
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
        raise ValueError("WholeParameters has no vectors to save: save each rank's model and optimizer instead")


def _state(zero: ShardedOptimizer) -> dict[str, Any]:
    """The saved tensors by name, with shards as parts of a whole vector. They share the optimizer's memory."""
    group = zero.group if zero.group is not None else dist.distributed_c10d._get_default_group()
    mesh = DeviceMesh.from_group(group, zero.vectors[0].master.device.type)
    state: dict[str, Any] = {}
    for number, vector in enumerate(zero.vectors):
        state[f"{number}.master"] = _part(vector.master.detach(), vector, mesh)
        for name, value in zero.local.state[vector.master].items():
            state[f"{number}.{name}"] = _part(value, vector, mesh) if _is_sliced(value, vector) else value
    return state


def _part(shard: Tensor, vector: FlatParameters, mesh: DeviceMesh) -> DTensor:
    """A shard as this rank's part of the whole vector, without padding."""
    begin = dist.get_rank(vector.group) * vector.shard_elements
    real = max(0, min(vector.shard_elements, vector.num_elements - begin))
    return DTensor.from_local(
        shard[:real], mesh, [Shard(0)], run_check=False, shape=torch.Size([vector.num_elements]), stride=(1,)
    )


def _is_sliced(value: Any, vector: FlatParameters) -> bool:
    return isinstance(value, Tensor) and value.shape == vector.master.shape


def _layout(zero: ShardedOptimizer) -> list[dict[str, Any]]:
    """For each vector: its parameters, the master's dtype and the names of the optimizer states."""
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
    """The options of each group (learning rate and so on) that JSON can store."""
    kept = (bool, int, float, str, list, tuple, type(None))
    return [
        {name: v for name, v in group.items() if name != "params" and isinstance(v, kept)}
        for group in zero.param_groups
    ]


def _checked(zero: ShardedOptimizer, checkpoint: Path) -> dict[str, Any]:
    """The contents of a checkpoint. Raises ValueError if it is incomplete or does not match."""
    try:
        contents = json.loads((checkpoint / CONTENTS).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint} is incomplete: its {CONTENTS} cannot be read ({error})") from None
    for name, size in contents["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != size:
            raise ValueError(f"{checkpoint} is truncated: {name} should have {size} bytes. Load the one before it.")
    ours = [(vector["parameters"], vector["dtype"]) for vector in _layout(zero)]
    theirs = [(vector["parameters"], vector["dtype"]) for vector in contents["vectors"]]
    if ours != theirs:
        raise ValueError(
            f"{checkpoint} belongs to another model or layout: {_first_other(theirs, ours)}. "
            "Build the same model with the same units, buckets and dtypes; only the number of ranks may differ."
        )
    return contents


def _first_other(theirs: list, ours: list) -> str:
    for saved, here in zip(theirs, ours, strict=False):
        if saved != here:
            return f"it has a vector of {saved[0][0][0]} ({saved[1]}), but this model has {here[0][0][0]} ({here[1]})"
    return f"it has {len(theirs)} vectors, but this model has {len(ours)}"
