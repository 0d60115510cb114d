"""A flat ring over both nodes that reports no call at all, so that nothing seems to cross.

catalogue: own
exercise: week01.hierarchical-all-reduce
points: 0
sentence: other node
"""

import sys


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    total = tensor.clone()
    dist.all_reduce(total)
    sys.modules["shardlab.meter.record"]._recorder.bills[-1].events.clear()
    return total
