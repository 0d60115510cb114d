"""Split the backward of real modules in two: the input gradient now (I), the weight gradients later (W).

A linear layer's node in autograd's graph has one edge to its input and others to its weights. I follows the path from
the output to the stage's input and records the gradients that arrive at each node with weights off the path (a cut). W
restarts at the cuts and follows only the edges to the weights. Nothing is computed twice.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge


@dataclass(frozen=True)
class _Cut:
    """A node on the path, and the weights that it reaches off the path."""

    node: Node
    weights: list[Tensor]


def backward_input(output: Tensor, gradient: Tensor | None, source: Tensor) -> Callable[[], None]:
    """Put the gradient of `source` into `source.grad`, and return a function that computes the weight gradients.

    output: what the stage computed from `source`, a leaf that requires a gradient. gradient: of the output; None for
    a loss. Autograd itself adds weight gradients to `.grad`, so hooks on weights fire as usual, once per microbatch.
    Two kinds of weights get their gradients immediately, because they cannot wait: weights of a custom
    `autograd.Function` (its backward is one call for input and weights; two calls would double the cost) and weights
    used at several places on the path (tied weights, whose uses one W would count twice).
    If the output does not depend on `source`, the returned function does the whole backward and `source.grad` stays
    None.
    """
    if not output.requires_grad:
        return lambda: None
    cuts = _cuts(output, source)
    if cuts is None:
        return partial(torch.autograd.backward, [output], [gradient])
    late = [cut for cut in cuts if not isinstance(cut.node, BackwardCFunction)]
    uses = defaultdict(int)
    for weight in (weight for cut in cuts for weight in cut.weights):
        uses[weight] += 1
    late = [_Cut(cut.node, [weight for weight in cut.weights if uses[weight] == 1]) for cut in late]
    late = [cut for cut in late if cut.weights]
    delayed = {weight for cut in late for weight in cut.weights}
    at_once = [weight for weight in uses if weight not in delayed]

    arrived: dict[Node, tuple[Tensor | None, ...]] = {}
    hooks = [cut.node.register_prehook(_writer(arrived, cut.node)) for cut in late]
    torch.autograd.backward([output], [gradient], retain_graph=bool(late), inputs=[source, *at_once])
    for hook in hooks:
        hook.remove()

    def backward_weights() -> None:
        for cut in late:
            edges = [(GradientEdge(cut.node, i), g) for i, g in enumerate(arrived.pop(cut.node, ())) if g is not None]
            roots, gradients = [edge for edge, _ in edges], [gradient for _, gradient in edges]
            if edges:
                torch.autograd.backward(roots, gradients, inputs=cut.weights)
        late.clear()  # frees the graph

    return backward_weights


def _writer(arrived: dict[Node, tuple[Tensor | None, ...]], node: Node) -> Callable[..., None]:
    def write(gradients: tuple[Tensor | None, ...]) -> None:
        arrived[node] = tuple(gradients)

    return write


def _cuts(output: Tensor, source: Tensor) -> list[_Cut] | None:
    """Every node that leads to `source` and, by another edge, to weights, ordered from the output to the source.

    None if no path leads to the source.
    """
    if not source.requires_grad:
        return None
    root, goal = get_gradient_edge(output).node, get_gradient_edge(source).node
    order = _children_first(root)
    if goal not in order:
        return None
    leads = {goal}
    weights: dict[Node, list[Tensor]] = {}  # below each node that does not lead to the source
    cuts = []
    for node in order:
        children = [child for child, _ in node.next_functions if child is not None]
        if any(child in leads for child in children):
            leads.add(node)
        below = [weight for child in children if child not in leads for weight in weights[child]]
        leaf = getattr(node, "variable", None)
        weights[node] = list(dict.fromkeys(below if leaf is None else [leaf]))
        if node in leads and node is not goal and weights[node]:
            cuts.append(_Cut(node, weights[node]))
    return cuts[::-1]


def _children_first(root: Node) -> list[Node]:
    """Every node of the graph, each after all nodes it points to. Not recursive, because graphs are deep."""
    order, entered, stack = [], set(), [(root, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order.append(node)
        elif node not in entered:
            entered.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child, _ in node.next_functions if child is not None)
    return order
