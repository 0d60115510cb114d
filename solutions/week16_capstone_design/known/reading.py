# %% right_filled_in from="page"
"""Different: key by key."""

# %% failed of="right_filled_in"
"""Wrong: the state that does use up a restart."""

# -reading_answers["not_counted"] = "HEALTHY"  # new nodes wait: membership changes do not count as retries
# +reading_answers["not_counted"] = "FAILED"  # new nodes wait: membership changes do not count as retries

# %% unhealthy of="right_filled_in"
"""Wrong: the other one."""

# -reading_answers["not_counted"] = "HEALTHY"  # new nodes wait: membership changes do not count as retries
# +reading_answers["not_counted"] = "UNHEALTHY"  # new nodes wait: membership changes do not count as retries

# %% swapped of="right_filled_in"
"""Wrong: starts before it stops."""

# -reading_answers["order"] = ["_stop_workers", "_initialize_workers"]
# +reading_answers["order"] = ["_initialize_workers", "_stop_workers"]

# %% one_call of="right_filled_in"
"""Wrong: forgets to start."""

# -reading_answers["order"] = ["_stop_workers", "_initialize_workers"]
# +reading_answers["order"] = ["_stop_workers"]

# %% of_torchrun of="right_filled_in"
"""Wrong: torchrun's own default."""

# -reading_answers["default"] = 3
# +reading_answers["default"] = 0

# %% right_as_text of="right_filled_in"
"""Different: a number as text."""

# -reading_answers["default"] = 3
# +reading_answers["default"] = "3"

# %% unanswered of="right_filled_in"
"""Wrong: nothing is answered."""

# -reading_answers["not_counted"] = "HEALTHY"  # new nodes wait: membership changes do not count as retries
# -reading_answers["order"] = ["_stop_workers", "_initialize_workers"]
# -reading_answers["default"] = 3
# +reading_answers["not_counted"] = None  # new nodes wait: membership changes do not count as retries
# +reading_answers["order"] = None
# +reading_answers["default"] = None

# %% right_one_dict
"""Different: one dict, other spellings."""

reading_answers = {
    "default": 3,
    "order": ("self._stop_workers()", "self._initialize_workers()"),
    "not_counted": "healthy",
}
