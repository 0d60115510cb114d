"""TernGrad and QSGD: a scale, and whole numbers drawn at random so that their mean is right.

Every case draws 500 messages. Bounds come from Bernstein's inequality: a right answer exceeds one of them with a
probability below 2e-9, for any gradient. (Near a probability of 0 or 1 a multiple of the standard deviation would not
hold.)
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, trouble_in_call, value_of
from autograder.weeks.week02_ddp.average_gradients import MASKED

TERNGRAD, QSGD = "terngrad", "qsgd"
DRAWS = 500
LOG_ODDS = math.log(2e9)  # of Bernstein's inequality
ROUNDING = 1e-3  # of a height that is nearly a whole number


def scale_of(method: str, gradient: Tensor) -> Tensor:
    """The largest magnitude (1705.07878, section 3.1) or the Euclidean norm (1610.02132, section 3.1)."""
    return gradient.abs().max() if method == TERNGRAD else gradient.norm()


def heights(method: str, gradient: Tensor, levels: int) -> Tensor:
    """The mean that each code must have: the number in units of scale / levels; zeros for a gradient of zeros."""
    scale = scale_of(method, gradient.double())
    return gradient.double() * levels / scale if scale else torch.zeros_like(gradient, dtype=torch.float64)


def message_bits(num_numbers: int, levels: int) -> int:
    """32 bits of scale, and for each number enough for 2 * levels + 1 codes."""
    return 32 + num_numbers * math.ceil(math.log2(2 * levels + 1))


def farthest(variance: Tensor, num_draws: int) -> Tensor:
    """How far a mean of draws that differ by at most 1 may be from its expectation (Bernstein)."""
    share = LOG_ODDS / num_draws
    return share / 3 + ((share / 3) ** 2 + 2 * variance * share).sqrt()


def _gradient(case: Case, rng: Random) -> Tensor:
    if case.get("zeros"):
        return torch.zeros(case["numbers"])
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    gradient = torch.randn(case["numbers"], generator=generator) * rng.uniform(0.2, 5)
    if case["numbers"] > 1:
        gradient[rng.randrange(case["numbers"])] = 0.0
    return gradient


def _make_stochastic(case: Case, rng: Random) -> Task:
    if "bits" in case:
        return Task("message_bits", ranks=1, inputs=[[[case["bits"], case["levels"]]]], expected=[], groups=[])
    gradient, seed = _gradient(case, rng), rng.randrange(1 << 31)
    arguments = [gradient] if case["part"] == TERNGRAD else [gradient, case["levels"]]
    call = [case["part"], arguments, DRAWS, seed]
    return Task("drawn", ranks=1, inputs=[[call]], expected=[gradient], groups=[])


def _judge_stochastic(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    if "bits" in case:
        right = message_bits(case["bits"], case["levels"])
        what = f"message_bits({case['bits']}, {case['levels']}) = {numbers_of(reply)!r}"
        return None if close(numbers_of(reply), right) else f"{what} is not the number of bits. Count scale and codes."
    messages = _messages(value_of(reply), task.expected[0])
    if isinstance(messages, str):
        return messages
    scales, codes = messages
    if problem := _wrong_draws(case, task.expected[0], scales[:DRAWS], codes[:DRAWS]):
        return problem
    same = torch.equal(codes[0], codes[DRAWS])
    return None if same else "A new generator with the same seed gives other codes: draw only from `generator`."


def _messages(value: Any, gradient: Tensor) -> tuple[Tensor, Tensor] | str:
    """Scales and codes (DRAWS + 1, n) as float64, or what is wrong with their form; the last repeats the first."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[1], Tensor):
        return "Leave `drawn` as it is, and return a scale and a tensor of codes."
    scales, codes = torch.tensor(value[0], dtype=torch.float64), value[1].double()
    if codes.shape != (DRAWS + 1, *gradient.shape) or scales.shape != (DRAWS + 1,):
        return f"Return a scale, and one code per number: {len(gradient)} of them, not {list(codes.shape[1:])}."
    if not torch.equal(codes, codes.round()):
        return "Codes are whole numbers; yours are not. The scale is returned separately."
    return scales, codes


def _wrong_draws(case: Case, gradient: Tensor, scales: Tensor, codes: Tensor) -> str | None:
    method, levels = case["part"], case.get("levels", 1)
    scale = scale_of(method, gradient.double())
    if not ((scales - scale).abs() <= 1e-4 * scale).all():
        kind = "largest magnitude" if method == TERNGRAD else "Euclidean norm"
        return f"{method}: the scale of {_shown(gradient)} is {float(scales[0]):g}, not its {kind}, {scale:g}."
    height = heights(method, gradient, levels)
    outside = (codes - height).abs() >= 1 + ROUNDING
    if outside.any():
        draw, place = outside.nonzero()[0].tolist()
        number = f"{gradient[place]:g} has the height {height[place]:.2f}"
        return f"{method}, levels = {levels}: {number}, but the code {codes[draw, place]:g}. Send a level next to it."
    return _biased(method, gradient, height, codes) or _dependent(method, height, codes)


def _biased(method: str, gradient: Tensor, height: Tensor, codes: Tensor) -> str | None:
    """Report a code whose mean is wrong, or whose magnitude has the wrong mean (a 0 sent as 1 and -1)."""
    share = height.abs() - height.abs().floor()
    allowed = farthest(share * (1 - share), DRAWS)
    wrong = ((codes.mean(0) - height).abs() > allowed) | ((codes.abs().mean(0) - height.abs()).abs() > allowed)
    if not wrong.any():
        return None
    place = int(wrong.nonzero()[0])
    return (
        f"{method}: over {DRAWS} draws the code of {gradient[place]:g} has the mean {codes[:, place].mean():.3f}, "
        f"and its magnitude {codes[:, place].abs().mean():.3f}; its height is {height[place]:.3f}."
    )


def _dependent(method: str, height: Tensor, codes: Tensor) -> str | None:
    """Report two numbers of one gradient that are rounded together: each needs its own draw."""
    share = height.abs() - height.abs().floor()
    rounded_up = codes.abs() - height.abs().floor() - share
    together = rounded_up.T @ rounded_up / DRAWS
    variance = share * (1 - share)
    wrong = together.abs() > farthest(torch.outer(variance, variance), DRAWS)
    wrong.fill_diagonal_(False)
    return f"{method}: two numbers are always rounded together. Draw once per number." if wrong.any() else None


def _shown(gradient: Tensor) -> str:
    numbers = ", ".join(f"{number:.3g}" for number in gradient[:4].tolist())
    return f"[{numbers}{', …' if len(gradient) > 4 else ''}]"


def _draw_stochastic(rng: Random) -> list[Case]:
    """Gradients with one number and with several; zeros; few and many levels; odd numbers of bits."""
    few, many = rng.randint(2, 5), rng.choice((16, 31, 32, 64))
    tern: list[Case] = [{"numbers": rng.randint(9, 14)}, {"numbers": 1}, {"numbers": 5, "zeros": True}]
    tern += [{"bits": rng.randint(100, 10_000), "levels": 1}]
    norm: list[Case] = [{"numbers": rng.randint(9, 14), "levels": levels} for levels in (1, few, many)]
    norm += [{"numbers": 3, "levels": 7, "zeros": True}]
    norm += [{"bits": rng.randint(100, 10_000), "levels": levels} for levels in (few, many, 127)]
    return [case | {"part": TERNGRAD} for case in tern] + [case | {"part": QSGD} for case in norm]


CHECK = Check(
    exercise="week02.stochastic",
    points=2,
    optional=True,
    names=("drawn", "message_bits"),
    public=(
        {"numbers": 10, "part": TERNGRAD},
        {"bits": 1000, "levels": 1, "part": TERNGRAD},
        {"numbers": 10, "levels": 4, "part": QSGD},
        {"numbers": 4, "levels": 7, "zeros": True, "part": QSGD},
        {"bits": 1000, "levels": 7, "part": QSGD},
    ),
    draw=_draw_stochastic,
    make=_make_stochastic,
    judge=_judge_stochastic,
    program="without_ranks",
    timeout=12.0,
    masked=(*MASKED, "shardlab.costs.compression"),
    parts={TERNGRAD: 0.5, QSGD: 0.5},
    hints=(
        "Measure every number in units of scale / levels: 0.3 has a 30% chance to become 1, and otherwise becomes 0. "
        "TernGrad has one level, so the two methods can share a helper.",
        "height = |gradient| / scale * levels. Round each height up with a probability of what it exceeds the level "
        "below by, and give the result the number's sign. One uniform number per element decides.",
        "(height + torch.rand(height.shape, generator=generator)).floor() is right on average. If the scale is 0, "
        "divide by something else: all codes are 0. 2 * levels + 1 codes need (2 * levels).bit_length() bits.",
    ),
)
