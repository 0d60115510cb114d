"""How far a predicted step may be off: from the errors on published runs whose source the constants have not seen."""

from math import log

MEAN_ERROR = 0.108  # the macro average of `python -m shardlab.costs.validation`, docs/cost-model.md


def step_interval(seconds: float, coverage: float = 0.9) -> tuple[float, float]:
    """(least, most) seconds between which a measured step lies with this probability.

    Errors fall off exponentially from their mean size e, so that a share c of them is below -e log(1 - c).
    Raises ValueError for a coverage that is not between 0 and 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"a coverage of {coverage}: use a number between 0 and 1, such as 0.9")
    error = -MEAN_ERROR * log(1 - coverage)
    return seconds / (1 + error), seconds * (1 + error)
