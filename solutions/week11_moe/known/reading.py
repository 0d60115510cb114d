# %% right_filled_in
"""Different: filled in line by line, with brackets and self."""

reading_answers = {}
reading_answers["drops"] = "Probs"
reading_answers["groups"] = 8 // 4
reading_answers["order"] = (
    "self.apply_z_loss()",
    "topk_routing_with_score_function()",
    "apply_router_token_dropping()",
)
reading_answers["order"] += ("self._apply_aux_loss()", "self._apply_expert_bias()")

# %% right_one_dict
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

# %% by_position of="right_one_dict"
"""Wrong: the other policy."""

# -    "drops": "probs",
# +    "drops": "position",

# %% best_score_alone of="right_one_dict"
"""Wrong: a group's best score, as DeepSeek-V2 has it."""

# -    "groups": 2,
# +    "groups": 1,

# %% k_of_a_group of="right_one_dict"
"""Wrong: k scores of each group."""

# -    "groups": 2,
# +    "groups": 8,

# %% allowed_groups of="right_one_dict"
"""Wrong: the number of groups."""

# -    "groups": 2,
# +    "groups": 4,

# %% drops_last of="right_one_dict"
"""Wrong: the losses before the drops."""

#          "topk_routing_with_score_function",
# +        "_apply_aux_loss",

# -        "_apply_aux_loss",

# %% counts_before_the_drops of="right_one_dict"
"""Wrong: counts for the bias before the drops."""

#          "topk_routing_with_score_function",
# +        "_apply_expert_bias",

# -        "_apply_expert_bias",

# %% z_loss_after of="right_one_dict"
"""Wrong: the z-loss after the choice."""

#      "order": [
# +        "topk_routing_with_score_function",

# -        "topk_routing_with_score_function",

# %% unanswered of="right_one_dict"
"""Wrong: nothing is answered."""

# -    "drops": "probs",
# -    "groups": 2,
# +    "drops": None,
# +    "groups": None,
