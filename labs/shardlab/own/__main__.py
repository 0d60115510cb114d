"""Train with `mine`, using the course's functions for missing ones: python -m shardlab.own recipe.toml."""

from importlib import import_module

from shardlab.own.names import PACKAGE

if __name__ == "__main__":
    program, train = (import_module(f"{PACKAGE}.{name}") for name in ("program", "train"))
    program.main(train.new_trainer, train.train_step)
