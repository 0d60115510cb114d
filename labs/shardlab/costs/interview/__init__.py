"""The oral bank: questions about distributed training, and model answers whose numbers are computed, never written."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.interview.asking import Asked, asked_in_random_order
    from shardlab.costs.interview.bank import QUESTIONS
    from shardlab.costs.interview.question import Setting
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
