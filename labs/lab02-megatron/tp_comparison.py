"""One step of Megatron's modules, of ours and of one process: outputs, gradients and every message."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.distributed as dist
from shardlab.meter import Bill
from shardlab.tensor_parallel.messages import all_gathered, own_part
from source_lines import recorded
from three_modules import Case, Part, Step, inputs_of, of_megatron, of_one_process, of_ours, whole_module
from torch import Tensor


class Message(NamedTuple):
    """One collective: its phase, kind and payload, and the line, function and module that sent it."""

    phase: str
    kind: str
    payload_bytes: int
    source: str


class Found(NamedTuple):
    """Results of one rank; differences are relative to each tensor's largest number, by tensor name."""

    megatron: list[Message]
    ours: list[Message]
    megatron_bytes: float
    our_bytes: float
    to_megatron: dict[str, float]
    to_one_process: dict[str, float]


class Ran(NamedTuple):
    """A finished step on this rank: its inputs with their gradient, its outputs, and a bill per phase."""

    inputs: Tensor
    outputs: Tensor
    bills: dict[str, Bill]

    @property
    def messages(self) -> list[Message]:
        return [
            Message(phase, event.kind, event.payload_bytes, event.where)
            for phase, bill in self.bills.items()
            for event in bill.events
        ]

    @property
    def sent_bytes(self) -> float:
        return sum(bill.sent_bytes for bill in self.bills.values())


def compare(cases: Sequence[Case], traces: str = "") -> list[Found]:
    """On each rank, after `megatron_on_cpu`: run one step of all three for each case.

    traces: a folder for torch.profiler's traces of Megatron's steps.
    """
    return [_compare(case, traces) for case in cases]


def _compare(case: Case, traces: str) -> Found:
    whole = whole_module(case)
    inputs, targets = inputs_of(case)
    given = own_part(inputs, 1, group=None) if case.splits_sequence else inputs
    weights = torch.linspace(-1, 1, targets.numel()).view(targets.shape)
    own_weights = own_part(weights, 1, group=None) if case.splits_sequence else weights

    one, ours, theirs = of_one_process(case, deepcopy(whole), targets), of_ours(case, whole), of_megatron(case, whole)
    expected = run_step(one, inputs, weights)
    mine = run_step(ours, given, own_weights)
    with profiled(traces, case.part):
        megatrons = run_step(theirs, given, own_weights)

    found = tensors_of(mine, ours, case.splits_sequence)
    return Found(
        megatrons.messages,
        mine.messages,
        megatrons.sent_bytes,
        mine.sent_bytes,
        apart(found, tensors_of(megatrons, theirs, case.splits_sequence)),
        apart(found, tensors_of(expected, one, is_split=False)),
    )


def run_step(step: Step, inputs: Tensor, weights: Tensor) -> Ran:
    """Forward, backward, and sums of partial gradients.

    The loss is the product of the outputs with fixed weights, so that each output has a different gradient.
    """
    leaf, bills = inputs.clone().requires_grad_(inputs.is_floating_point()), {}
    with recorded(step.module) as bills["forward"]:
        outputs = step.forward(leaf)
    with recorded(step.module) as bills["backward"]:
        (outputs * weights).sum().backward()
    with recorded(step.module) as bills["finish"]:
        step.finish()
    return Ran(leaf, outputs.detach(), bills)


def tensors_of(ran: Ran, step: Step, is_split: bool) -> dict[str, Tensor]:
    """Outputs and all gradients, whole on every rank."""
    tensors = {"outputs": ran.outputs} | ({} if ran.inputs.grad is None else {"gradient of inputs": ran.inputs.grad})
    if is_split:
        tensors = {name: all_gathered(one, 1, group=None) for name, one in tensors.items()}
    return tensors | step.gradients()


def apart(ours: dict[str, Tensor], others: dict[str, Tensor]) -> dict[str, float]:
    """The largest difference of each tensor, relative to its largest number."""
    assert ours.keys() == others.keys()
    return {name: ((one - others[name]).abs().max() / others[name].abs().max()).item() for name, one in ours.items()}


def profiled(folder: str, part: Part):
    """Run torch.profiler around the step if a folder is given; `analyze_timeline.py` reads its traces."""
    from torch.profiler import ProfilerActivity, profile

    if not folder:
        return nullcontext()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler prints when it starts and stops
    return profile(
        activities=[ProfilerActivity.CPU],
        on_trace_ready=lambda done: done.export_chrome_trace(f"{folder}/{part}-rank{dist.get_rank()}.json"),
    )
