"""Every rank has a part of the experts: rows travel to them and back. What one device does lies in `model`.

`model/` routes (`router`, `balance`), drops (`capacity`), sorts (`permutation`) and computes (`experts`, `moe`).
"""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    dispatch=("agree", "combined", "dispatched", "start_combine", "start_dispatch"),
    emulated=("SlowLink",),
    gradients=("average_gradients", "clip_gradients", "expert_parameters", "norm_of_gradients"),
    layer=("Nodes", "ParallelMoE", "Splits", "spread_experts"),
    messages=("Travel", "all_to_all", "start_all_to_all"),
    overlap=("overlapped",),
    placement=("Placement", "placed"),
    turns=("Turns",),
)
