"""What failures cost a long run: how often it stops, when to write checkpoints, which share of the time is work.

A failure stops all ranks; work since the last checkpoint is done again. Failures come without memory, at a constant
rate. Symbols: M mean seconds between two failures of the whole run, delta seconds that a checkpoint takes, tau seconds
of work between two of them, R seconds from a failure until work goes on.

Sources: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974. Daly, "A higher
order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006. How often GPUs fail: Llama 3,
arXiv 2407.21783, section 3.3.4.
"""

from math import exp, expm1, sqrt
from random import Random

from shardlab.costs.memory.states import OPTIMIZER_BYTES, WEIGHT_BYTES

LLAMA3 = {"gpus": 16384, "days": 54, "failures": 419}  # unexpected interruptions, table 5; 47 planned ones come on top


def mean_seconds_of_one(num_gpus: int, seconds: float, failures: float) -> float:
    """Mean seconds between two failures of one GPU, from those of a run: N T / failures."""
    _check_positive(num_gpus=num_gpus, seconds=seconds, failures=failures)
    return num_gpus * seconds / failures


def mean_seconds_between(num_gpus: int, mean_seconds: float) -> float:
    """M: with N GPUs failures come N times as often as with one."""
    _check_positive(num_gpus=num_gpus, mean_seconds=mean_seconds)
    return mean_seconds / num_gpus


def expected_failures(seconds: float, between: float) -> float:
    """T / M."""
    _check_positive(between=between)
    return seconds / between


def quiet_share(seconds: float, between: float) -> float:
    """exp(-T/M): the probability that nothing fails for so long."""
    _check_positive(between=between)
    return exp(-seconds / between)


def checkpoint_bytes(num_parameters: float) -> float:
    """14P: bf16 weights, and float32 master weights, momentum and variance; gradients are not kept."""
    _check_positive(num_parameters=num_parameters)
    return (WEIGHT_BYTES + OPTIMIZER_BYTES) * num_parameters


def best_interval(save_seconds: float, between: float) -> float:
    """tau = sqrt(2 delta M): where checkpoints and lost work cost equally much (Young 1974). Good for delta << M."""
    _check_positive(save_seconds=save_seconds, between=between)
    return sqrt(2 * save_seconds * between)


def best_interval_daly(save_seconds: float, between: float) -> float:
    """sqrt(2 delta M) (1 + x/3 + x^2/9) - delta with x = sqrt(delta / 2M), and M where delta is 2M or more (Daly 2006).

    The optimum of `goodput` within a per cent for delta up to M/2; R does not move it.
    """
    _check_positive(save_seconds=save_seconds, between=between)
    if save_seconds >= 2 * between:
        return between
    x = sqrt(save_seconds / (2 * between))
    return best_interval(save_seconds, between) * (1 + x / 3 + x * x / 9) - save_seconds


def goodput(interval: float, save_seconds: float, between: float, restart_seconds: float) -> float:
    """Share of the time that is work which lasts: tau / (M exp(R/M) (exp((tau + delta)/M) - 1)), Daly 2006.

    Derived: tau + delta without a failure take M (exp((tau + delta)/M) - 1) seconds on average when each failure starts
    them again at once; a restart of R seconds, during which the run may fail too, stretches that by exp(R/M).
    For tau, R << M about 1 - delta/tau - (tau/2 + R)/M.
    """
    _check_positive(interval=interval, between=between)
    if save_seconds < 0 or restart_seconds < 0:
        raise ValueError(f"a checkpoint of {save_seconds} s, a restart of {restart_seconds} s: use 0 or more")
    return interval / (between * exp(restart_seconds / between) * expm1((interval + save_seconds) / between))


def first_order_goodput(interval: float, save_seconds: float, between: float, restart_seconds: float) -> float:
    """tau/(tau + delta) (1 - (R + (tau + delta)/2)/M), 0 where nothing is left: what Young's interval makes largest.

    A failure is as likely in every moment, so half an interval is lost on average. Good for tau, R << M.
    """
    _check_positive(interval=interval, between=between)
    whole = interval + save_seconds
    return max(0.0, interval / whole * (1 - (restart_seconds + whole / 2) / between))


def played_goodput(
    interval: float, save_seconds: float, between: float, restart_seconds: float, *, checkpoints: int, seed: int = 0
) -> float:
    """The same, played: failures are drawn until so many checkpoints are written. No formula is used."""
    _check_positive(interval=interval, between=between, checkpoints=checkpoints)
    rng, now, written = Random(seed), 0.0, 0
    fails_at, ready_at = rng.expovariate(1 / between), 0.0
    while written < checkpoints:
        done_at = ready_at + interval + save_seconds
        if done_at <= fails_at:
            written, ready_at, now = written + 1, done_at, done_at
            continue
        ready_at = fails_at + restart_seconds
        fails_at += rng.expovariate(1 / between)
    return written * interval / now


def _check_positive(**sizes: float) -> None:
    for name, size in sizes.items():
        if not size > 0:
            raise ValueError(f"{name} = {size}: use a number above 0")
