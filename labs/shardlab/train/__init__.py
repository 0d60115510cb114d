"""Train a recipe on any mesh: data order, loop, logs, and checkpoints that any other mesh can load."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.train.by_step import lr_at
    from shardlab.train.checkpoint_contents import Damaged
    from shardlab.train.checkpoint_load import latest, load
    from shardlab.train.hook import Hook, KillRank, new_folder
    from shardlab.train.logs import LoggedStep, read_log
    from shardlab.train.loop import train
    from shardlab.train.recipe import from_tables, parse, read
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
