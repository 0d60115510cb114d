"""Check the sizes of a schedule. Error messages say which sizes would work."""


def need_sizes(num_ranks: int, num_microbatches: int, *, least_ranks: int = 1) -> None:
    """Raise ValueError unless both numbers are integers and large enough."""
    for name, number, least in (
        ("ranks", num_ranks, least_ranks),
        ("microbatches", num_microbatches, 1),
    ):
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"{name} = {number!r} is not a number of {name}: use a whole number, {least} or more")
        if number < least:
            raise ValueError(f"{name} = {number} is too few for this schedule: use {least} or more")
