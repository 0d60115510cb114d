"""A normal rank except for one gradient: `python poisoned_rank.py RECIPE RANK STEP` under torchrun's agent.

Run on its own, it starts the ranks.
"""

import os
import sys

import typer


def main(recipe: str, poisoned: int, step: int) -> None:
    """Train; in step STEP, rank POISONED gets a NaN in the gradient of its first weight."""
    import torch
    from shardlab.train import Hook, program, read

    class Poison(Hook):
        """Adds a hook to a weight for one backward."""

        def on_step(self, training, number: int) -> None:
            if number == step and training.rank == poisoned:
                part = next(iter(training.trainer.parts.values()))
                weight = next(one for one in part.parameters() if one.requires_grad)
                handle = weight.register_hook(
                    lambda gradient: (handle.remove(), torch.full_like(gradient, torch.nan))[1]
                )

    wanted = read(recipe)
    if "RANK" not in os.environ:
        raise typer.Exit(program.start(wanted, [recipe, str(poisoned), str(step)], program=[os.path.abspath(__file__)]))
    code = program.be_a_rank(wanted, hooks=[Poison()])
    sys.stdout.flush()
    if code:
        os._exit(code)  # no destructors: they would wait for peers


if __name__ == "__main__":
    typer.run(main)
