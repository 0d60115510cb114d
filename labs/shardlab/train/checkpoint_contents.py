"""The contents file of a checkpoint: a list of its tensors and its files' checksums, and functions that verify it.

A checkpoint is a folder `step-00000020` with DCP's files and `contents.json`, which is written last. The folder gets
that name when it is complete; until then it is called `.step-00000020.part`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlab.train.checkpoint_plan import WholeTensor

CONTENTS, FORMAT = "contents.json", 1
BEFORE_IT = "Load an earlier checkpoint, or none"


class Damaged(ValueError):
    """A checkpoint that is truncated or whose bytes have changed."""


def folder_of(root: Path, step: int) -> Path:
    """The path of a complete checkpoint."""
    return root / f"step-{step:08}"


def draft_of(target: Path) -> Path:
    """The path of a checkpoint until it is complete."""
    return target.with_name(f".{target.name}.part")


def complete(root: Path) -> list[Path]:
    """The complete checkpoints, latest first."""
    return sorted((path for path in root.glob("step-*") if path.is_dir()), reverse=True)


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_contents(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write the list with a checksum of itself, and flush it to disk."""
    whole = {"format": FORMAT, **contents}
    with (folder / CONTENTS).open("w", encoding="utf-8") as file:
        json.dump(whole | {"checksum": _of_json(whole)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_contents(checkpoint: Path) -> dict[str, Any]:
    """The list of a checkpoint. Raises Damaged if it is missing, truncated or changed."""
    try:
        contents = json.loads((checkpoint / CONTENTS).read_text(encoding="utf-8"))
        stated = contents.pop("checksum")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        reason = f"its {CONTENTS} cannot be read ({type(error).__name__})"
        raise Damaged(f"{checkpoint} is not a complete checkpoint: {reason}. {BEFORE_IT}") from None
    if stated != _of_json(contents):
        raise Damaged(f"{checkpoint}: {CONTENTS} does not match its own checksum. {BEFORE_IT}")
    if contents["format"] != FORMAT:
        raise ValueError(f"{checkpoint} has format {contents['format']}, but this program reads format {FORMAT}")
    return contents


def check_sizes(checkpoint: Path, files: Mapping[str, Sequence[Any]]) -> None:
    """Raise Damaged if a file is missing or has a different size; reads no file."""
    for name, (size, _) in files.items():
        path = checkpoint / name
        there = path.stat().st_size if path.is_file() else 0
        if there != size:
            raise Damaged(f"{checkpoint} is incomplete: {name} has {there} bytes instead of {size}. {BEFORE_IT}")


def check_bytes(checkpoint: Path, files: Mapping[str, Sequence[Any]], names: Sequence[str]) -> None:
    """Raise Damaged if the bytes of a file in `names` have changed since it was written."""
    for name in names:
        if sha256(checkpoint / name) != files[name][1]:
            raise Damaged(f"{checkpoint}: the checksum of {name} has changed since it was written. {BEFORE_IT}")


def check_tensors(checkpoint: Path, saved: Mapping[str, Sequence[Any]], wanted: Mapping[str, WholeTensor]) -> None:
    """Raise ValueError with the first difference if a checkpoint is of another model or optimizer."""
    theirs = {name: WholeTensor(tuple(shape), dtype) for name, (shape, dtype) in saved.items()}
    if theirs == wanted:
        return
    reason = next(_differences(theirs, wanted))
    raise ValueError(f"{checkpoint} belongs to another model or optimizer: {reason}. Nothing was loaded")


def _differences(theirs: Mapping[str, WholeTensor], wanted: Mapping[str, WholeTensor]) -> Iterator[str]:
    their_blocks, our_blocks = _blocks(theirs), _blocks(wanted)
    if their_blocks < our_blocks:
        yield (
            f"it has blocks 0 to {max(their_blocks, default=0)}, this model 0 to {max(our_blocks)}: either that model "
            "had fewer layers, or each pipeline stage numbered its blocks from 0 and overwrote those of another stage"
        )
    their_kinds, our_kinds = ({name.partition(".")[0] for name in some} for some in (theirs, wanted))
    if their_kinds != our_kinds:
        yield f"it stores {', '.join(sorted(their_kinds))} of each tensor, this run {', '.join(sorted(our_kinds))}"
    for name in sorted(theirs.keys() | wanted.keys()):
        if name not in theirs or name not in wanted:
            yield f"{name} is only in {'this model' if name in wanted else 'the checkpoint'}"
        if theirs[name] != wanted[name]:
            yield f"{name} is {_text(theirs[name])} in the checkpoint and {_text(wanted[name])} in this model"


def _blocks(names: Mapping[str, WholeTensor]) -> set[int]:
    """The indices of the blocks that have weights."""
    return {int(name.split(".")[2]) for name in names if name.startswith("weight.blocks.")}


def _text(one: WholeTensor) -> str:
    return f"{list(one.shape)} of {one.dtype.removeprefix('torch.')}"


def _of_json(contents: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
