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
