"""Different: filled in line by line, modules in front."""

reading_answers = {}
reading_answers["default"] = "all_gather"
reading_answers["gradients_sent"] = 2 * 2
reading_answers["order"] = ("next_buffer()", "exchange_buffers()", "op()", "step()")
