"""The learner's own trainer: answers from all weeks as one package, `mine`; the course's answers fill the gaps."""

from shardlab.exports import lazily

TYPE_CHECKING = False  # type checkers take it as True; `import typing` takes longer than all of this

if TYPE_CHECKING:
    from shardlab.own import hunt, saving, step_bytes
    from shardlab.own.packing import pack
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
