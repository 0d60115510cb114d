"""What failures cost: how often a checkpoint should be saved, and the share of time that is left for training.

Symbols: T seconds of work between two saves, s seconds that a save stops the work, R seconds from a failure until the
work goes on, M mean seconds between two failures of the whole job.
"""

from math import sqrt


def young_interval(save_seconds: float, between_failures: float) -> float:
    """sqrt(2sM): the T with the least s/T + T/(2M) (Young, A first order approximation, CACM 17(9), 1974).

    Raises ValueError unless both are positive.
    """
    _check(save_seconds=save_seconds, between_failures=between_failures)
    return sqrt(2 * save_seconds * between_failures)


def daly_interval(save_seconds: float, between_failures: float) -> float:
    """Young's interval with the next terms; M where s >= 2M (Daly, FGCS 22(3), 2006, equation 37)."""
    first = young_interval(save_seconds, between_failures)
    ratio = save_seconds / (2 * between_failures)
    if ratio >= 1:
        return between_failures
    return first * (1 + sqrt(ratio) / 3 + ratio / 9) - save_seconds


def goodput(interval: float, save_seconds: float, restart_seconds: float, between_failures: float) -> float:
    """The share of time that is progress: T/(T+s), without restarts and what is done twice, (R + (T+s)/2)/M.

    A failure is as likely in every moment, so half an interval is lost on average; 0 where nothing is left.
    Raises ValueError for an interval or M that is not positive.
    """
    _check(interval=interval, between_failures=between_failures)
    whole = interval + save_seconds
    return max(0.0, interval / whole * (1 - (restart_seconds + whole / 2) / between_failures))


def _check(**sizes: float) -> None:
    for name, size in sizes.items():
        if not size > 0:
            raise ValueError(f"{name} = {size!r}: use more than 0 seconds")
