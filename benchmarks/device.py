"""Timing on either device: wait until the device has finished before reading the clock."""

from __future__ import annotations

import torch


def wait_for(device: str) -> None:
    """Wait until a GPU ("cuda") has finished all queued work; a CPU ("cpu") always has."""
    if device == "cuda":
        torch.cuda.synchronize()
