"""Different: module names, brackets, a tuple."""

reading_answers = {
    "f": "_copytomodelparallelregion",
    "loss": 3,
    "order": ("torch.distributed.all_reduce", "grad_weight", "wait"),
}
