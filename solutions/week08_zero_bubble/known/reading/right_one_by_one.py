"""Different: a plain copy with other quotes and a list comprehension."""

answers = [("order", [name for name in ("take", "input_gradient", "put")]), ("weights_by", ["autograd", "grad"][1])]
reading_answers = dict(answers, late_cuts=1)
