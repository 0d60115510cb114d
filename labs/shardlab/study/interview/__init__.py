"""The bank of oral questions about distributed training, with model answers whose numbers are always computed."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.study.interview.asking import Asked, asked_in_random_order
    from shardlab.study.interview.bank import QUESTIONS
    from shardlab.study.interview.question import Setting
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
