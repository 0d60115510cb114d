"""Messages without tags, as in NCCL: the k-th message that one rank sends is the k-th that the other receives.

gloo has tags, so an answer whose two sides disagree about the order would work here and fail on every GPU.
`checks.order` detects answers that restore tags, by reading the packets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from shardlab.meter import place


def ignore() -> None:
    """Drop the tag of every send and receive in this process and its forks."""
    place.hide(__file__)
    for name in ("send", "recv", "recv_anysource"):
        setattr(dist.ProcessGroup, name, _without_tag(getattr(dist.ProcessGroup, name)))


def _without_tag(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method whose tag is a keyword or, as in torch's own calls, the last argument."""

    def tagless(*arguments: Any, **named: Any) -> Any:
        if "tag" in named:
            return method(*arguments, **named | {"tag": 0})
        return method(*arguments[:-1], 0, **named)

    return tagless
