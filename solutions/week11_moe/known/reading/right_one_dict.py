"""Different: one dict."""

reading_answers = {
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
