"""Cost of a long run: days, GPU-hours and price; how often it fails, when to write checkpoints, and useful time.

A failure stops all ranks, and work since the last checkpoint is repeated. Failures are memoryless with a constant
rate. Symbols: M mean seconds between two failures of the whole run, delta seconds to write a checkpoint, tau seconds of
work between two checkpoints, R seconds from a failure until work resumes.

Sources: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974. Daly, "A higher
order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006. Failure rate of GPUs: Llama 3,
arXiv 2407.21783, section 3.3.4.
"""

from dataclasses import dataclass
from math import exp, expm1, sqrt
from random import Random

from shardlab.costs.memory.states import OPTIMIZER_BYTES, WEIGHT_BYTES
from shardlab.costs.models.model import Transformer, num_parameters

LLAMA3 = {"gpus": 16384, "days": 54, "failures": 419}  # unexpected interruptions, table 5; plus 47 planned ones


def mean_seconds_of_one(num_gpus: int, seconds: float, failures: float) -> float:
    """Mean seconds between two failures of one GPU, from those of a whole run: N T / failures."""
    _check_positive(num_gpus=num_gpus, seconds=seconds, failures=failures)
    return num_gpus * seconds / failures


def mean_seconds_between(num_gpus: int, mean_seconds: float) -> float:
    """M: N GPUs fail N times as often as one."""
    _check_positive(num_gpus=num_gpus, mean_seconds=mean_seconds)
    return mean_seconds / num_gpus


def expected_failures(seconds: float, between: float) -> float:
    """T / M."""
    _check_positive(between=between)
    return seconds / between


def quiet_share(seconds: float, between: float) -> float:
    """exp(-T/M): the probability of no failure in `seconds`."""
    _check_positive(between=between)
    return exp(-seconds / between)


def checkpoint_bytes(num_parameters: float) -> float:
    """14P: bf16 weights, and float32 master weights, momentum and variance; gradients are not saved."""
    _check_positive(num_parameters=num_parameters)
    return (WEIGHT_BYTES + OPTIMIZER_BYTES) * num_parameters


def best_interval(save_seconds: float, between: float) -> float:
    """tau = sqrt(2 delta M): checkpoints and lost work cost the same (Young 1974). Accurate for delta << M."""
    _check_positive(save_seconds=save_seconds, between=between)
    return sqrt(2 * save_seconds * between)


def best_interval_daly(save_seconds: float, between: float) -> float:
    """sqrt(2 delta M) (1 + x/3 + x^2/9) - delta with x = sqrt(delta / 2M), or M if delta >= 2M (Daly 2006).

    Within one percent of the optimum of `goodput` for delta up to M/2; independent of R.
    """
    _check_positive(save_seconds=save_seconds, between=between)
    if save_seconds >= 2 * between:
        return between
    x = sqrt(save_seconds / (2 * between))
    return best_interval(save_seconds, between) * (1 + x / 3 + x * x / 9) - save_seconds


def goodput(interval: float, save_seconds: float, between: float, restart_seconds: float) -> float:
    """Share of time spent on work that is kept: tau / (M exp(R/M) (exp((tau + delta)/M) - 1)), Daly 2006.

    Derivation: tau + delta without a failure take M (exp((tau + delta)/M) - 1) seconds on average if each failure
    starts them over at once. A restart of R seconds, during which the run may fail too, multiplies that by exp(R/M).
    For tau, R << M this is about 1 - delta/tau - (tau/2 + R)/M.
    """
    _check_positive(interval=interval, between=between)
    if save_seconds < 0 or restart_seconds < 0:
        raise ValueError(f"a checkpoint of {save_seconds} s, a restart of {restart_seconds} s: use 0 or more")
    return interval / (between * exp(restart_seconds / between) * expm1((interval + save_seconds) / between))


def first_order_goodput(interval: float, save_seconds: float, between: float, restart_seconds: float) -> float:
    """tau/(tau + delta) (1 - (R + (tau + delta)/2)/M), at least 0: maximized by Young's interval.

    A failure is equally likely at any moment, so half an interval is lost on average. Accurate for tau, R << M.
    """
    _check_positive(interval=interval, between=between)
    whole = interval + save_seconds
    return max(0.0, interval / whole * (1 - (restart_seconds + whole / 2) / between))


def played_goodput(
    interval: float, save_seconds: float, between: float, restart_seconds: float, *, checkpoints: int, seed: int = 0
) -> float:
    """Goodput by simulation, without a formula: draws failures until `checkpoints` checkpoints are written."""
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


DAY, HOUR = 86_400, 3_600
WRITE_BYTES = 2e12 / 2048  # per second and server of a checkpoint: Llama 3's storage (arXiv 2407.21783, section 3.3.1)
RESTART_SECONDS = 600.0  # from a failure until work resumes: assumed


@dataclass(frozen=True)
class LongRun:
    """A run of `tokens` tokens. days: with failures and checkpoints; goodput: share of days that is work kept.

    price: of all GPU-hours, None without a price per hour.
    """

    tokens: int
    steps: int
    days_without_failures: float
    days: float
    gpu_hours: float
    goodput: float
    failures: float
    checkpoint_minutes: float
    price: float | None


def long_run(
    model: Transformer,
    num_gpus: int,
    per_server: int,
    step_seconds: float,
    tokens_per_step: int,
    tokens: int,
    price_per_hour: float | None = None,
) -> LongRun:
    """Days, GPU-hours and price of training on `tokens` tokens, with the failure rate of Llama 3's GPUs.

    A GPU fails as on 16,384 H100s in 54 days (arXiv 2407.21783, table 5). All servers write checkpoints, at the
    cheapest interval (Daly 2006). Raises ValueError for fewer tokens than one step, and for a negative price.
    """
    if tokens < tokens_per_step:
        raise ValueError(f"{tokens:,} tokens are fewer than one step of {tokens_per_step:,}: use at least that many")
    if price_per_hour is not None and not 0 <= price_per_hour < float("inf"):
        raise ValueError(f"a price of {price_per_hour} for a GPU-hour: use 0 or more")
    steps = -(-tokens // tokens_per_step)
    one = mean_seconds_of_one(LLAMA3["gpus"], LLAMA3["days"] * DAY, LLAMA3["failures"])
    between = mean_seconds_between(num_gpus, one)
    save = checkpoint_bytes(num_parameters(model)) / (WRITE_BYTES * -(-num_gpus // per_server))
    interval = best_interval_daly(save, between)
    share = goodput(interval, save, between, RESTART_SECONDS)
    seconds = steps * step_seconds / share
    hours = num_gpus * seconds / HOUR
    return LongRun(
        tokens=tokens,
        steps=steps,
        days_without_failures=steps * step_seconds / DAY,
        days=seconds / DAY,
        gpu_hours=hours,
        goodput=share,
        failures=seconds / between,
        checkpoint_minutes=interval / 60,
        price=None if price_per_hour is None else hours * price_per_hour,
    )
