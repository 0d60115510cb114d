"""Different: names with their modules, a tuple for a list."""

reading_answers = {"late_cuts": 3 - 2}
reading_answers["weights_by"] = "torch.autograd.grad"
reading_answers["order"] = ("take()", "Input_Gradient", "put()")
