# %% right_computed
"""Different: computed, other spellings."""

reading_answers = dict(
    first_bucket=1024 * 1024,
    at_the_start="_sync_module_states()",
    order=("to", "div_", "dist.all_reduce", "copy_"),
    autocast_bytes="4",
)

# %% right_one_by_one
"""Different: filled in one by one."""

import torch

reading_answers = {}
reading_answers["first_bucket"] = 2**20
reading_answers["at_the_start"] = "_sync_module_states"
reading_answers["order"] = ["to", "div_", "all_reduce", "copy_"]
reading_answers["autocast_bytes"] = torch.ones(1).element_size()

# %% unanswered
"""Wrong: left as it was."""

reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}

# %% as_it_is_written of="unanswered"
"""Wrong: in the order of the text: the closure is written before it is called."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 2**20,
# +    "at_the_start": "_sync_module_states",
# +    "order": ["to", "div_", "copy_", "all_reduce"],
# +    "autocast_bytes": 4,
# +}

# %% buffers of="unanswered"
"""Wrong: the function for each forward, not for the start."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 2**20,
# +    "at_the_start": "_sync_buffers",
# +    "order": ["to", "div_", "all_reduce", "copy_"],
# +    "autocast_bytes": 4,
# +}

# %% divides_last of="unanswered"
"""Wrong: divides after the all-reduce."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 2**20,
# +    "at_the_start": "_sync_module_states",
# +    "order": ["to", "all_reduce", "div_", "copy_"],
# +    "autocast_bytes": 4,
# +}

# %% megabytes of="unanswered"
"""Wrong: a number of MiB."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 1,
# +    "at_the_start": "_sync_module_states",
# +    "order": ["to", "div_", "all_reduce", "copy_"],
# +    "autocast_bytes": 4,
# +}

# %% the_cap of="unanswered"
"""Wrong: bucket_cap_mb instead of the first bucket."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 25 * 2**20,
# +    "at_the_start": "_sync_module_states",
# +    "order": ["to", "div_", "all_reduce", "copy_"],
# +    "autocast_bytes": 4,
# +}

# %% two_bytes of="unanswered"
"""Wrong: the bytes of the activations, as the lecture has it."""

# -reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
# +reading_answers = {
# +    "first_bucket": 2**20,
# +    "at_the_start": "_sync_module_states",
# +    "order": ["to", "div_", "all_reduce", "copy_"],
# +    "autocast_bytes": 2,
# +}
