"""A race on either device: a clock may be read only when the device has done what it was given."""

from __future__ import annotations

import torch


def wait_for(device: str) -> None:
    """Wait until a GPU ("cuda") has done what it was given; a CPU ("cpu") has."""
    if device == "cuda":
        torch.cuda.synchronize()
