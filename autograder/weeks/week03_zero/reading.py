"""Three answers from real code; `solutions/week03_zero/test_week03_zero.py` checks them against the code itself."""

from autograder.checks.reading import reading_check

READING = {"on_the_way": 2, "params_by": "broadcast", "order": ["reduce_scatter", "all_reduce", "all_gather"]}

CHECK = reading_check(
    "week03.reading",
    READING,
    {
        "on_the_way": "look at what Gradients.send in reducing.py leaves pending when it returns",
        "params_by": "follow _sync_params down to the call of torch.distributed",
        "order": "read ShardedOptimizer.step from top to bottom, and Gradients.shards, which it calls",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "Buckets are received oldest first until `leave` of them are left.",
        "A step has four phases: gradients, clipping, the update, weights. Three of them communicate.",
    ),
)
