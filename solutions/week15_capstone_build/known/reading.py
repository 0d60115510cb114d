# %% right_filled_in
"""Different: a dict literal."""

reading_answers = {
    "waiting": "num_nodes_waiting",
    "counts": False,
    "order": ["dump", "fsync", "rm_file", "rename"],
}

# %% restarts of="right_filled_in"
"""Wrong: names what is left of the restarts."""

# -    "waiting": "num_nodes_waiting",
# +    "waiting": "_remaining_restarts",

# %% all_count of="right_filled_in"
"""Wrong: believes that a new node uses up a restart."""

# -    "counts": False,
# +    "counts": True,

# %% rename_first of="right_filled_in"
"""Wrong: renames before it is on the disk."""

# -    "order": ["dump", "fsync", "rm_file", "rename"],
# +    "order": ["dump", "rename", "fsync", "rm_file"],

# %% removes_first of="right_filled_in"
"""Wrong: removes the old list before the new one is written."""

# -    "order": ["dump", "fsync", "rm_file", "rename"],
# +    "order": ["rm_file", "dump", "fsync", "rename"],

# %% not_answered of="right_filled_in"
"""Wrong: is handed in as it was."""

# -    "waiting": "num_nodes_waiting",
# +    "waiting": None,

# %% right_one_dict
"""Different: filled in afterwards, a tuple, with brackets behind the names."""

reading_answers = {"waiting": None, "counts": None, "order": None}
reading_answers |= {"waiting": "num_nodes_waiting()", "counts": False}
reading_answers["order"] = ("dump", "fsync", "rm_file", "rename")
