"""Self-study: the learner's pages, page updates that keep the answers, and progress."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.study.panels import hint, offer_hint, solution
    from shardlab.study.records import note
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
