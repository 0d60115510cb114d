"""ZeRO-1 on real ranks: every rank has all weights and gradients, and an N-th of the optimizer's state.

Read beside it: labs/shardlab/data_parallel/zero1.py. Start with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(1))
