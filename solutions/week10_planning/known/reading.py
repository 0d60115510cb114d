# %% right_computed
"""Different: puts the names together."""

reading_answers = {
    "order": [name + "p" for name in "tcedp"],
    "fp32_gradients": "grad reduce in fp32",
    "smallest_bucket": 40 * 10**6,
}

# %% right_dashes
"""Different: as a tuple, in capitals."""

reading_answers = {
    "order": ("TP", "CP", "EP", "DP", "PP"),
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40000000,
}

# %% as_text
"""Wrong: a text for a list."""

reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}

# %% another_field of="as_text"
"""Wrong: a field about something else."""

# -reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "order": ["tp", "cp", "ep", "dp", "pp"],
# +    "fp32_gradients": "overlap_grad_reduce",
# +    "smallest_bucket": 40_000_000,
# +}

# %% ddps_default of="as_text"
"""Wrong: torch's 25 MB."""

# -reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "order": ["tp", "cp", "ep", "dp", "pp"],
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 25_000_000,
# +}

# %% outermost_first of="as_text"
"""Wrong: the other way round."""

# -reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "order": ["pp", "dp", "ep", "cp", "tp"],
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 40_000_000,
# +}

# %% per_rank of="as_text"
"""Wrong: the other term of the max."""

# -reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "order": ["tp", "cp", "ep", "dp", "pp"],
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 1_000_000,
# +}

# %% pipeline_inside of="as_text"
"""Wrong: the pipeline before data parallelism."""

# -reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "order": ["tp", "cp", "ep", "pp", "dp"],
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 40_000_000,
# +}

# %% unanswered
"""Wrong: left as it was."""

reading_answers = {"order": None, "fp32_gradients": None, "smallest_bucket": None}
