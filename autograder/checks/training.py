"""Shared by the checks that train: what is built for a rank, and how weights, gradients and memory are judged.

    args = [module("mlp", seed=3, widths=[4, 8, 1]), optimizer("SGD", of=0, lr=0.5), inputs, targets]

An answer gets these as a module, an optimizer over module 0's parameters, and tensors. `Check(trains=True)` reports
what became of them. Values are as trustworthy as any result; `held_bytes` is a claim; `peak_bytes` is the kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.checks.base import Case, Reply, Task, trouble, wrong_value
from autograder.checks.groups import group_task
from autograder.checks.packets import size
from autograder.jobs import trained

REPORTS = ("weights", "grads")
SLACK_BYTES = 8 << 20  # of a peak: what collectives buffer, code that is touched for the first time


def module(kind: str, *, seed: int, whole: bool = False, **sizes: Any) -> dict[str, Any]:
    """A module of `autograder.jobs.trained.MODULES`; whole numbers make sums exact in every order.

    Raises ValueError for a kind that there is not.
    """
    if kind not in trained.MODULES:
        raise ValueError(f"no module {kind!r}: use {', '.join(trained.MODULES)}")
    return {"module": kind, "sizes": sizes, "seed": seed, "whole": whole}


def module_with(kind: str, weights: dict[str, torch.Tensor], **sizes: Any) -> dict[str, Any]:
    """A module with these weights, by name."""
    return module(kind, seed=0, **sizes) | {"weights": weights}


def optimizer(kind: str, *, of: int, **settings: Any) -> dict[str, Any]:
    """An optimizer over the parameters of the module at place `of` among the arguments."""
    if kind not in trained.OPTIMIZERS:
        raise ValueError(f"no optimizer {kind!r}: use {', '.join(trained.OPTIMIZERS)}")
    return {"optimizer": kind, "of": of, "settings": settings}


def leaf(tensor: torch.Tensor) -> dict[str, Any]:
    """A tensor whose gradient is wanted."""
    return {"leaf": tensor}


def training_task(
    case: Case, call: str, args: dict[int, list], expected: dict[int, Any], *, reports: Sequence[str] = REPORTS, **facts
) -> Task:
    """A task of a group in which every member trains; a case about memory has `reports=()`: they need memory too.

    With "calls": 2 in the case the function is called for two steps, with the same arguments; the last one is judged.
    """
    task = group_task(case, call, args, expected, **facts)
    for mine in filter(None, task.inputs):
        mine["reports"] = list(reports)
        mine["calls"] = case.get("calls", 1)
    return task


def failed(reply: Reply) -> str | None:
    """What went wrong before there was a result."""
    return trouble(reply)


def wrong_weights(
    rank: int, reported: dict[str, Any], expected: dict[str, torch.Tensor], *, of: int = 0, relative: float = 0.0
) -> str | None:
    """Hold the weights that module `of` has after the call against the expected ones, by name."""
    return _wrong_named(rank, _reported(reported, "weights", of), expected, "weight", relative)


def wrong_grads(
    rank: int, reported: dict[str, Any], expected: dict[str, torch.Tensor], *, of: int = 0, relative: float = 0.0
) -> str | None:
    """The same for the gradients."""
    return _wrong_named(rank, _reported(reported, "grads", of), expected, "gradient of", relative)


def wrong_leaf_grads(
    rank: int, reported: dict[str, Any], expected: Sequence[torch.Tensor], *, relative: float = 0.0
) -> str | None:
    """The same for the leaves, in the order of the arguments."""
    received = reported.get("trained", {}).get("leaf_grads")
    named = {str(place): grad for place, grad in enumerate(received)} if isinstance(received, list) else None
    wanted = {str(place): grad for place, grad in enumerate(expected)}
    return _wrong_named(rank, named, wanted, "gradient of input", relative)


def holds_too_much(rank: int, reported: dict[str, Any], most: dict[str, float], why: str) -> str | None:
    """Whether a rank says that it holds more bytes of `parameters`, `gradients` or `optimizer_state` than it may.

    Its own words may name the remedy where a peak is too high, or where nobody reads one; they earn no point.
    """
    held = reported.get("trained", {}).get("held_bytes", {})
    for kind, expected in most.items():
        received = held.get(kind)
        if type(received) is not int:
            return f"Rank {rank} does not show what it holds. Return what the exercise asks for."
        if received > expected:
            what = kind.replace("_", " ")
            return f"Rank {rank} holds {size(received)} of {what} where {size(expected)} are expected, {why}."
    return None


def peak_too_high(reply: Reply, rank: int, most_bytes: float, why: str) -> str | None:
    """Whether a rank had more memory at once, above its inputs, than `most_bytes`; read outside of it.

    Where nothing could be read (no sandbox), it passes: such verdicts are no grades.
    """
    if reply.loopback_bytes < 0:
        return None
    peak = reply.peak_bytes[rank]
    if peak is None:
        return f"Rank {rank} left before its memory could be read. Return from the function."
    if peak > most_bytes + SLACK_BYTES:
        end = "" if why.endswith("?") else "."
        return f"Rank {rank} had {size(peak)} at once where {size(most_bytes)} are enough, {why}{end}"
    return None


def any_peak_too_high(reply: Reply, most_bytes: float, why: str) -> str | None:
    """The same for every rank, working or not: all run the same code, and one could hold what another must not."""
    ranks = range(len(reply.ranks))
    return next((problem for rank in ranks if (problem := peak_too_high(reply, rank, most_bytes, why))), None)


def _reported(reported: dict[str, Any], what: str, of: int) -> Any:
    """One module's part of the report, or None."""
    modules = reported.get("trained", {}).get(what)
    return modules[of] if isinstance(modules, list) and of < len(modules) else None


def _wrong_named(rank: int, received: Any, expected: dict[str, torch.Tensor], word: str, relative: float) -> str | None:
    if not isinstance(received, dict):
        return f"Rank {rank} does not show the module that it was given. Train that one, not another."
    for name, wanted in expected.items():
        if received.get(name) is None:
            return f"On rank {rank} there is no {word} {name} after the call."
        if problem := wrong_value(rank, received[name], wanted, f"the {word} {name}", relative=relative):
            return problem
    return None
