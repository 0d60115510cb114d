"""Different: computed, other spellings."""

reading_answers = dict(
    first_bucket=1024 * 1024, at_the_start="_sync_module_states()", order=("to", "div_", "dist.all_reduce", "copy_")
)
