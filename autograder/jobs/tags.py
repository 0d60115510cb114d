"""Messages without tags, as on NCCL: the k-th that a rank sends to another is the k-th that the other receives.

gloo has tags, so that an answer whose two sides disagree about the order would be right here and wrong on every GPU.
Who brings them back is seen on the wire (`checks.order`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def ignore() -> None:
    """Drop the tag of every send and receive in this process and in those that it forks."""
    for name in ("send", "recv", "recv_anysource"):
        setattr(dist.ProcessGroup, name, _without_tag(getattr(dist.ProcessGroup, name)))


def _without_tag(method: Callable[..., Any]) -> Callable[..., Any]:
    """The tag is the last argument, as torch calls them, or named."""

    def tagless(*arguments: Any, **named: Any) -> Any:
        if "tag" in named:
            return method(*arguments, **named | {"tag": 0})
        return method(*arguments[:-1], 0, **named)

    return tagless
