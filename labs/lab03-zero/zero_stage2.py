"""ZeRO-2 on real ranks: gradients are sharded too; they are reduced to their owner during the backward.

Read along in labs/shardlab/data_parallel/zero.py. Run with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(2))
