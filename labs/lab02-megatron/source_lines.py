"""Where a message is sent: line and function in Megatron's code or ours, and the module of the model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from shardlab import meter
from torch import Tensor, nn

FOLDERS = ("/megatron/core/", "/shardlab/tensor_parallel/")
RECORDER = sys.modules[meter.Bill.__module__]  # `meter.record` the function hides the module of that name
WRAPPER = "/shardlab/tensor_parallel/messages.py"  # its callers are more informative


@contextmanager
def recorded(model: nn.Module) -> Iterator[meter.Bill]:
    """A bill whose events have "file:line, function, module of `model`" in `where`, the module only if known.

    The meter treats library code as machinery, but here we want Megatron's lines.
    """
    modules = {module: path for path, module in model.named_modules()}
    weights = {one.data_ptr(): name.rpartition(".")[0] for name, one in model.named_parameters()}
    with patch.object(RECORDER, "caller", lambda: _source(modules, weights)), meter.record() as bill:
        yield bill


def _source(modules: dict[nn.Module, str], weights: dict[int, str]) -> str:
    frames = list(_frames())
    if not frames:
        return "neither"
    names = [frame.f_code.co_qualname.partition(".<locals>")[0] for frame in frames]
    function = next((name for name in names if _says_what(name)), names[0])
    found = (_module(frame, modules, weights) for frame in frames)
    line = f"{Path(frames[0].f_code.co_filename).name}:{frames[0].f_lineno}"
    return ", ".join(part for part in (line, function, next(filter(None, found), "")) if part)


def _module(frame: FrameType, modules: dict[nn.Module, str], weights: dict[int, str]) -> str:
    """The module whose method a frame runs or, in the backward, the module that owns its local `weight`."""
    owner, weight = frame.f_locals.get("self"), frame.f_locals.get("weight")
    if isinstance(owner, nn.Module):
        return modules.get(owner, "")
    return weights.get(weight.data_ptr(), "") if isinstance(weight, Tensor) else ""


def _frames() -> Iterator[FrameType]:
    """Frames of Megatron's code and ours, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if any(folder in filename for folder in FOLDERS) and not filename.endswith(WRAPPER):
            yield frame
        frame = frame.f_back


def _says_what(name: str) -> bool:
    """Whether a function's name is worth showing: public, or the forward or backward of an operator."""
    return name.endswith((".forward", ".backward")) or not name.startswith("_")
