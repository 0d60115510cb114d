"""Expert parallelism: every rank holds some of the experts, and rows are sent to their experts and back.

The single-device parts are in `model/`: routing and balancing (`router`), dropping and sorting (`permutation`) and
computing (`experts`, `moe`).
"""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.expert_parallel.dispatch import combined
    from shardlab.expert_parallel.emulated import SlowLink
    from shardlab.expert_parallel.gradients import average_gradients, clip_gradients, norm_of_gradients
    from shardlab.expert_parallel.layer import Nodes, ParallelMoE, Splits, overlapped, spread_experts
    from shardlab.expert_parallel.messages import Travel, all_to_all
    from shardlab.expert_parallel.placement import placed
    from shardlab.expert_parallel.turns import Turns
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
