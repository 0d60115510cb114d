"""Three answers from Megatron-Core's router; the week's own test checks them against that code."""

from __future__ import annotations

from dataclasses import replace

from autograder.checks.reading import reading_check

READING = {
    "drops": "probs",
    "groups": 2,
    "order": [
        "apply_z_loss",
        "topk_routing_with_score_function",
        "apply_router_token_dropping",
        "_apply_aux_loss",
        "_apply_expert_bias",
    ],
}

READ = reading_check(
    "week11.reading",
    READING,
    {
        "drops": "read the default of drop_policy in apply_router_token_dropping",
        "groups": "read group_limited_topk: how many scores of each group does it add?",
        "order": "read TopKRouter.routing from top to bottom",
    },
    hints=(
        "The first two are in moe_utils.py, the third in router.py.",
        "A word in quotes; a number for k = 8 and four groups; five names.",
        "topk // group_topk. Logits come before choices, choices before drops, and counting comes last.",
    ),
)

CHECK = replace(READ, optional=True)
