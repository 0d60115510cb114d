"""Every rank has the model, or its share of it, and a part of the batch: DDP, then ZeRO's stages 1, 2 and 3."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    checkpoint=(),
    compression=("OneBit", "QSGD", "TernGrad", "TopK", "mean_of_messages"),
    ddp=("DataParallel",),
    emulated=("EmulatedLayer", "over_link"),
    sharded_optimizer=("ShardedOptimizer",),
    zero1=("Zero1",),
    zero2=("Zero2",),
    zero3=("Zero3",),
    zero_plus_plus=("ZeroPlusPlus",),
)
