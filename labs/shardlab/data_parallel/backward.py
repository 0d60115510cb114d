"""Queries about a backward for hooks: whether one is running, when it ends, where it enters, what it reaches."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.autograd.graph import Node, get_gradient_edge
from torch.utils._pytree import tree_leaves

OPAQUE = (nn.Module, type, types.ModuleType, types.FunctionType, types.MethodType)  # not looked into


def is_running() -> bool:
    """Whether this thread is inside a backward. If so, a forward that runs now is a recomputation."""
    return torch._C._current_graph_task_id() >= 0


def call_at_its_end(function: Callable[[], None]) -> None:
    """Call a function at the end of the current backward."""
    Variable._execution_engine.queue_callback(function)


def entrances(output: Any) -> Iterator[Tensor]:
    """The tensors through which a backward can enter the graph that computed `output`.

    Searches lists, tuples, dicts, sets, dataclasses and other objects. Leaves, such as a returned parameter, are not
    entrances.
    """
    waiting, seen = [output], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, Tensor):
            if one.grad_fn is not None:
                yield one
        elif id(one) not in seen:
            seen.add(id(one))
            waiting += _inside(one)


def _inside(value: Any) -> list[Any]:
    leaves = tree_leaves(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return leaves
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, OPAQUE):
        return []
    slots = [getattr(value, name, None) for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", {}).values()]


def node_of(tensor: Tensor) -> int:
    """The sequence number of the node that computed a tensor. Nodes are numbered in the order of their creation."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn._sequence_nr()


def next_node() -> int:
    """The sequence number that the next node will get."""
    return torch._C._autograd._get_sequence_nr()  # type: ignore[attr-defined]


def current_node() -> int:
    """The sequence number of the node that the backward is now executing."""
    return torch._C._current_autograd_node()._sequence_nr()


def accumulator(parameter: nn.Parameter) -> Node:
    """The graph node that accumulates a parameter's gradient. Keep a reference to it for `reaches`."""
    return get_gradient_edge(parameter).node


def reaches(node: Node) -> bool:
    """Whether the running backward will reach this accumulator. `torch.autograd.grad` reaches none."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # torch.autograd.grad asks for the parameter itself
        return False
