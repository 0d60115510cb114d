"""Different: filled in line by line, in another spelling."""

reading_answers = {}
reading_answers["kept"] = "input split sizes"
reading_answers["scatters"] = 2 + 2
reading_answers["order"] = ("self.preprocess()", "self.dispatch()", "self.routed_experts_compute()", "self.combine()")
