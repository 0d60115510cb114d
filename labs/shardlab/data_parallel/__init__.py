"""Data parallelism: each rank has the model, or its share of it, and a part of the batch. DDP, then ZeRO 1, 2 and 3."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.data_parallel import checkpoint
    from shardlab.data_parallel.compression import QSGD, OneBit, TernGrad, TopK, mean_of_messages
    from shardlab.data_parallel.ddp import DataParallel
    from shardlab.data_parallel.emulated import EmulatedLayer, offloaded_step, over_link
    from shardlab.data_parallel.zero import Zero1, Zero2, Zero3, ZeroPlusPlus
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
