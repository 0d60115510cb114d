"""ZeRO-2 on real ranks: gradients, too, stay only with their owner; they are summed there during the backward.

Read beside it: labs/shardlab/data_parallel/zero2.py. Start with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(2))
