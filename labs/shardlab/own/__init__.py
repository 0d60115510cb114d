"""A learner's own trainer: the answers of all weeks as one package, `mine`, with the course's where one is missing."""

from shardlab.exports import lazily

TYPE_CHECKING = False  # type checkers take it as True; `import typing` takes longer than all of this

if TYPE_CHECKING:
    from shardlab.own import hunt, saving, step_bytes
    from shardlab.own.packing import pack
    from shardlab.own.shown import show
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
