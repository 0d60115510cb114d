"""Train a recipe on any mesh: data order, loop, logs, and checkpoints that any other mesh can load."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    checkpoint_contents=("Damaged",),
    checkpoint_load=("latest", "load", "load_latest"),
    checkpoint_save=("Saved", "Saver"),
    drill=("KillRank", "new_folder"),
    hook=("Hook",),
    loop=("Summary", "Training", "train"),
    logs=("Row", "read_log"),
    order=("sequence_numbers", "text_of"),
    rates=("rate_at",),
    recipe=("Recipe", "from_tables", "parse", "read"),
)
