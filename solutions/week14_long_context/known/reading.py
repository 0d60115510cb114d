# %% right_filled_in
"""Different: filled in line by line, modules in front."""

reading_answers = {}
reading_answers["default"] = "all_gather"
reading_answers["gradients_sent"] = 2 * 2
reading_answers["order"] = ("next_buffer()", "exchange_buffers()", "op()", "step()")

# %% unanswered of="right_filled_in"
"""Wrong: nothing is answered."""

# -reading_answers["default"] = "all_gather"
# -reading_answers["gradients_sent"] = 2 * 2
# -reading_answers["order"] = ("next_buffer()", "exchange_buffers()", "op()", "step()")
# +
# +
# +

# %% right_one_dict
"""Different: one dict."""

reading_answers = {
    "default": "ALL-GATHER",
    "gradients_sent": 4,
    "order": ["next_buffer", "exchange_buffers", "op", "step"],
}

# %% all_to_all of="right_one_dict"
"""Wrong: the method that is not the default."""

# -    "default": "ALL-GATHER",
# +    "default": "ALL_TO_ALL",

# %% as_often_as_keys of="right_one_dict"
"""Wrong: gradients as often as keys."""

# -    "gradients_sent": 4,
# +    "gradients_sent": 3,

# %% both of="right_one_dict"
"""Wrong: keys and gradients together."""

# -    "gradients_sent": 4,
# +    "gradients_sent": 7,

# %% computes_first of="right_one_dict"
"""Wrong: sends when the block is done."""

# -    "order": ["next_buffer", "exchange_buffers", "op", "step"],
# +    "order": ["next_buffer", "op", "exchange_buffers", "step"],

# %% merges_last_sends_last of="right_one_dict"
"""Wrong: sends at the very end."""

# -    "order": ["next_buffer", "exchange_buffers", "op", "step"],
# +    "order": ["next_buffer", "op", "step", "exchange_buffers"],

# %% sends_before_it_waits of="right_one_dict"
"""Wrong: sends on what has not come."""

# -    "order": ["next_buffer", "exchange_buffers", "op", "step"],
# +    "order": ["exchange_buffers", "next_buffer", "op", "step"],
