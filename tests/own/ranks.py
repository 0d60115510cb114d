"""Train recipes on torchrun ranks with `mine` alone and save the results: python ranks.py recipes.json folder.

Most of shardlab is hidden here; the meter is not, because it counts from outside.
"""

import importlib.abc
import json
import sys
import time
from datetime import timedelta
from pathlib import Path

HIDDEN = [f"shardlab.{axis}_parallel" for axis in ("data", "tensor", "pipeline", "context", "expert")]
HIDDEN += ["shardlab.hybrid", "shardlab.train", "shardlab.collectives", "shardlab.mesh", "autograder"]


class Hidden(importlib.abc.MetaPathFinder):
    """Refuse to import modules that the trainer must not use."""

    def find_spec(self, fullname, path=None, target=None):
        if any(fullname == name or fullname.startswith(f"{name}.") for name in HIDDEN):
            raise ImportError(f"{fullname} is hidden here")


def main(recipes: str, folder: str) -> None:
    import torch
    import torch.distributed as dist

    sys.meta_path.insert(0, Hidden())
    sys.path.insert(0, folder)
    from mine import mesh, model, program, train
    from shardlab import meter

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    found = []
    for given in json.loads(Path(recipes).read_text()):
        recipe, begin = program.recipe_of(given, dist.get_world_size()), time.monotonic()
        groups = mesh.my_groups(program.GROUPS, {axis: getattr(recipe, axis) for axis in program.AXES})
        trainer = train.new_trainer(recipe, groups, model.new_weights(recipe), model.new_text(recipe))
        losses = [train.train_step(trainer, step) for step in range(recipe.steps - 1)]
        with meter.record() as bill:
            losses.append(train.train_step(trainer, recipe.steps - 1))
        sent = [(list(event.members), event.sent_bytes) for event in bill.events]
        places = {axis: groups[axis].rank() for axis in program.AXES}
        found.append((losses, weights_of(trainer, train), places, sent, time.monotonic() - begin))
    torch.save(found, Path(folder) / f"rank{dist.get_rank()}.pt")
    dist.destroy_process_group()


def weights_of(trainer, train):
    """This rank's parts of the weights, by name."""
    return {
        f"{key.split()[0]}.{name}": one.detach().clone()
        for key, unit in trainer.units.items()
        for name, one in train.named(trainer, key, unit).items()
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
