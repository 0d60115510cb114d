"""Helpers for checks of training: describe modules to build on a rank; judge weights, gradients and memory.

    args = [module("mlp", seed=3, widths=[4, 8, 1]), optimizer("SGD", of=0, lr=0.5), inputs, targets]

The student's function receives a module, an optimizer over module 0's parameters, and tensors. `Check(trains=True)`
reports their state after the call. Its values are as trustworthy as any result; `held_bytes` is only a claim;
`peak_bytes` is measured by the kernel.
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
SLACK_BYTES = 8 << 20  # allowed above a peak for the buffers of collectives and newly loaded code


def module(kind: str, *, seed: int, whole: bool = False, **sizes: Any) -> dict[str, Any]:
    """Describe a module of `autograder.jobs.trained.MODULES`; `whole` weights keep sums exact in any order.

    Raises ValueError for an unknown kind.
    """
    if kind not in trained.MODULES:
        raise ValueError(f"no module {kind!r}: use {', '.join(trained.MODULES)}")
    return {"module": kind, "sizes": sizes, "seed": seed, "whole": whole}


def module_with(kind: str, weights: dict[str, torch.Tensor], **sizes: Any) -> dict[str, Any]:
    """Describe a module with these weights, by name."""
    return module(kind, seed=0, **sizes) | {"weights": weights}


def optimizer(kind: str, *, of: int, **settings: Any) -> dict[str, Any]:
    """Describe an optimizer over the parameters of module number `of` among the arguments."""
    if kind not in trained.OPTIMIZERS:
        raise ValueError(f"no optimizer {kind!r}: use {', '.join(trained.OPTIMIZERS)}")
    return {"optimizer": kind, "of": of, "settings": settings}


def leaf(tensor: torch.Tensor) -> dict[str, Any]:
    """Describe a tensor that requires a gradient."""
    return {"leaf": tensor}


def training_task(
    case: Case, call: str, args: dict[int, list], expected: dict[int, Any], *, reports: Sequence[str] = REPORTS, **facts
) -> Task:
    """A task in which every member of a group trains. Use `reports=()` to measure memory: reports need memory too.

    With "calls": 2 in the case, the function is called twice with the same arguments, and the second call is judged.
    """
    task = group_task(case, call, args, expected, **facts)
    for mine in filter(None, task.inputs):
        mine["reports"] = list(reports)
        mine["calls"] = case.get("calls", 1)
    return task


def failed(reply: Reply) -> str | None:
    """Describe what prevented a result."""
    return trouble(reply)


def wrong_weights(
    rank: int, reported: dict[str, Any], expected: dict[str, torch.Tensor], *, of: int = 0, relative: float = 0.0
) -> str | None:
    """Compare the weights of module `of` after the call with the expected ones, by name."""
    return _wrong_named(rank, _reported(reported, "weights", of), expected, "weight", relative)


def wrong_grads(
    rank: int, reported: dict[str, Any], expected: dict[str, torch.Tensor], *, of: int = 0, relative: float = 0.0
) -> str | None:
    """Like `wrong_weights`, but compare gradients."""
    return _wrong_named(rank, _reported(reported, "grads", of), expected, "gradient of", relative)


def wrong_leaf_grads(
    rank: int, reported: dict[str, Any], expected: Sequence[torch.Tensor], *, relative: float = 0.0
) -> str | None:
    """Like `wrong_weights`, but compare the gradients of leaves, in the order of the arguments."""
    received = reported.get("trained", {}).get("leaf_grads")
    named = {str(place): grad for place, grad in enumerate(received)} if isinstance(received, list) else None
    wanted = {str(place): grad for place, grad in enumerate(expected)}
    return _wrong_named(rank, named, wanted, "gradient of input", relative)


def holds_too_much(rank: int, reported: dict[str, Any], most: dict[str, float], why: str) -> str | None:
    """Report a rank that claims to hold more bytes of `parameters`, `gradients` or `optimizer_state` than it may.

    These claims only explain a peak that is too high, or replace it if peaks cannot be measured; they earn no points.
    """
    held = reported.get("trained", {}).get("held_bytes", {})
    for kind, expected in most.items():
        received = held.get(kind)
        if type(received) is not int:
            return f"Rank {rank} does not report what it holds. Return what the exercise asks for."
        if received > expected:
            what = kind.replace("_", " ")
            return f"Rank {rank} holds {size(received)} of {what}, expected {size(expected)}, {why}."
    return None


def peak_too_high(reply: Reply, rank: int, most_bytes: float, why: str) -> str | None:
    """Report a rank whose peak memory above its inputs exceeds `most_bytes`; measured outside the rank.

    Without a sandbox, nothing can be measured and this passes; such verdicts are not grades.
    """
    if reply.loopback_bytes < 0:
        return None
    peak = reply.peak_bytes[rank]
    if peak is None:
        return f"Rank {rank} exited before its memory could be measured. Return from the function instead."
    if peak > most_bytes + SLACK_BYTES:
        end = "" if why.endswith("?") else "."
        return f"Rank {rank} held {size(peak)} at its peak, but {size(most_bytes)} are enough, {why}{end}"
    return None


def any_peak_too_high(reply: Reply, most_bytes: float, why: str) -> str | None:
    """Like `peak_too_high`, for every rank, working or not: an idle rank could hold data for a working one."""
    ranks = range(len(reply.ranks))
    return next((problem for rank in ranks if (problem := peak_too_high(reply, rank, most_bytes, why))), None)


def _reported(reported: dict[str, Any], what: str, of: int) -> Any:
    """One module's part of the report, or None."""
    modules = reported.get("trained", {}).get(what)
    return modules[of] if isinstance(modules, list) and of < len(modules) else None


def _wrong_named(rank: int, received: Any, expected: dict[str, torch.Tensor], word: str, relative: float) -> str | None:
    if not isinstance(received, dict):
        return f"Rank {rank} does not report the module that it was given. Train that module, not another."
    for name, wanted in expected.items():
        if received.get(name) is None:
            return f"Rank {rank} has no {word} {name} after the call."
        if problem := wrong_value(rank, received[name], wanted, f"the {word} {name}", relative=relative):
            return problem
    return None
