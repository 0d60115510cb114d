"""ZeRO-3 on real ranks: weights are sharded too; a block's weights are gathered for its passes, then freed.

Read along in labs/shardlab/data_parallel/zero.py. Run with `python`, or with `torchrun --nproc-per-node 4`.
"""

import typer
from report import program

if __name__ == "__main__":
    typer.run(program(3))
