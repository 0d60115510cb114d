"""ZeRO-1 on real ranks: every rank has all weights and gradients, and 1/N of the optimizer state.

Read along in labs/shardlab/data_parallel/zero.py. Run with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(1))
