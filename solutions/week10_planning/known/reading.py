# %% right_computed
"""Different: computes the numbers."""

reading_answers = {
    "replicas": 64 // 4 // 2 // 2,
    "fp32_gradients": "grad reduce in fp32",
    "smallest_bucket": 40 * 10**6,
}

# %% right_dashes
"""Different: a number as text, dashes and capitals."""

reading_answers = {
    "replicas": "4",
    "fp32_gradients": "GRAD-REDUCE-IN-FP32",
    "smallest_bucket": 40000000,
}

# %% experts_divide
"""Wrong: divides by the expert-parallel size as well."""

reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}

# %% another_field of="experts_divide"
"""Wrong: a field about something else."""

# -reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "replicas": 4,
# +    "fp32_gradients": "overlap_grad_reduce",
# +    "smallest_bucket": 40_000_000,
# +}

# %% ddps_default of="experts_divide"
"""Wrong: torch's 25 MB."""

# -reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "replicas": 4,
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 25_000_000,
# +}

# %% with_context_ranks of="experts_divide"
"""Wrong: the ranks that reduce gradients, with those of context parallelism."""

# -reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "replicas": 8,
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 40_000_000,
# +}

# %% per_rank of="experts_divide"
"""Wrong: the other term of the max."""

# -reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "replicas": 4,
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 1_000_000,
# +}

# %% experts_replicas of="experts_divide"
"""Wrong: the data-parallel size of the experts."""

# -reading_answers = {"replicas": 1, "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
# +reading_answers = {
# +    "replicas": 2,
# +    "fp32_gradients": "grad_reduce_in_fp32",
# +    "smallest_bucket": 40_000_000,
# +}

# %% unanswered
"""Wrong: left as it was."""

reading_answers = {"replicas": None, "fp32_gradients": None, "smallest_bucket": None}
