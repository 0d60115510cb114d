"""ZeRO-3 on real ranks: weights, too, are cut; a block's are gathered while it works and freed behind it.

Read beside it: labs/shardlab/data_parallel/zero3.py. Start with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(3))
