"""Save parameters that are split over t ranks, and load them on any number of ranks.

A checkpoint is a folder with one file per rank. Each file records how its tensors are split, so that a reader can
assemble the whole tensors and split them differently.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gradients import cuts_of
from shardlab.tensor_parallel.messages import Group

Tensors = Mapping[str, Tensor]


def joined(parts: Sequence[Tensors], cuts: Mapping[str, Cut]) -> dict[str, Tensor]:
    """The whole tensors, by name, from all ranks' parts. Tensors that `cuts` does not name are whole on every rank."""
    return {
        name: cuts[name].join([one[name] for one in parts]) if name in cuts else tensor
        for name, tensor in parts[0].items()
    }


def parted(whole: Tensors, cuts: Mapping[str, Cut], *, rank: int, size: int) -> dict[str, Tensor]:
    """Rank `rank`'s parts of whole tensors in a group of `size` ranks."""
    return {
        name: cuts[name].part(tensor, rank, size) if name in cuts else tensor.clone() for name, tensor in whole.items()
    }


def save(module: nn.Module, folder: str | os.PathLike, *, group: Group) -> None:
    """Write the parameters of a split model into a folder. Every rank must call it, with the same folder.

    The folder is renamed into place once all files are in it. If a rank dies during a save, the old folder is kept.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    draft = Path(folder).with_name(f".{Path(folder).name}.part")
    if rank == 0:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    dist.barrier(group=group)
    tensors = {name: parameter.detach() for name, parameter in module.named_parameters(remove_duplicate=False)}
    cuts = {name: (cut.sections, cut.dim, cut.units, cut.padded) for name, cut in cuts_of(module).items()}
    torch.save({"tensors": tensors, "cuts": cuts, "size": size}, draft / f"rank-{rank:03}.pt")
    dist.barrier(group=group)
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    dist.barrier(group=group)


def load(module: nn.Module, folder: str | os.PathLike, *, group: Group) -> None:
    """Set the parameters of a split model from a checkpoint that was written by any number of ranks.

    Raises the same ValueError on every rank, before anything is changed, if the folder is not a complete checkpoint or
    belongs to another model.
    """
    whole = read(folder)
    named, cuts = dict(module.named_parameters(remove_duplicate=False)), cuts_of(module)
    if odd := sorted(whole.keys() ^ named.keys()):
        raise ValueError(f"{folder} belongs to another model: {', '.join(odd[:3])} is only in one of them")
    for name, parameter in named.items():
        shape = list(parameter.shape)
        if name in cuts:
            shape[cuts[name].dim] = sum(cuts[name].sections)
        if list(whole[name].shape) != shape:
            raise ValueError(
                f"{folder} belongs to another model: {name} has shape {list(whole[name].shape)} there, {shape} here"
            )
    parts = parted(whole, cuts, rank=dist.get_rank(group), size=dist.get_world_size(group))
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(parts[name])


def read(folder: str | os.PathLike) -> dict[str, Tensor]:
    """The whole parameters of a checkpoint. Raises ValueError if files are missing or cannot be read."""
    files = sorted(Path(folder).glob("rank-*.pt"))
    try:
        ranks = [torch.load(file, weights_only=True, mmap=True) for file in files]
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{folder} is not a complete checkpoint: {error}") from None
    if not ranks or len(ranks) != ranks[0]["size"]:
        wanted = ranks[0]["size"] if ranks else "1 or more"
        raise ValueError(f"{folder} is not a complete checkpoint: it has files of {len(ranks)} ranks, not of {wanted}")
    cuts = {name: Cut(*fields) for name, fields in ranks[0]["cuts"].items()}
    return joined([rank["tensors"] for rank in ranks], cuts)
