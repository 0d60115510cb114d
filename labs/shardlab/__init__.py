"""The lab package of SYS-602: real ranks, what they send, what they hold, and the formulas beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardlab.ranks.run import PerRank, RanksFailed, run

__all__ = ["PerRank", "RanksFailed", "run"]


def __getattr__(name: str) -> Any:
    """Import `run` and its friends at first use: `shardlab doctor --help` and the cost formulas need no torch."""
    if name in __all__:
        from shardlab.ranks import run as module

        return getattr(module, name)
    raise AttributeError(f"module 'shardlab' has no attribute {name!r}")
