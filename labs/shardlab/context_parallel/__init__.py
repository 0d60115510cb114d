"""Context parallelism: each rank has a part of each sequence. Layouts of tokens, and four ways to reach other keys."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.context_parallel.attention import attend
    from shardlab.context_parallel.balance import contiguous, zigzag
    from shardlab.context_parallel.gathered import Gathered
    from shardlab.context_parallel.ring import Ring
    from shardlab.context_parallel.ulysses import Ulysses
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
