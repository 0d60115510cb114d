"""The cost of a whole run: days, GPU-hours, price and the effect of failures."""

from dataclasses import dataclass

from shardlab.costs.failures import (
    LLAMA3,
    best_interval_daly,
    checkpoint_bytes,
    goodput,
    mean_seconds_between,
    mean_seconds_of_one,
)
from shardlab.costs.models.model import Transformer, num_parameters

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
