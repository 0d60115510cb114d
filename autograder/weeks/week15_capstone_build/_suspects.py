"""The joined gradients of one step of a small model on any mesh, with one of six public bugs.

Computed in one process: a bug changes how much each token counts, or which parts of a gradient are summed. The week's
test compares with `shardlab.hybrid.suspects`, which plants the same bugs in a step on real ranks.

Shapes: B sequences, S tokens each, V vocabulary, H hidden, E experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch
from shardlab.hybrid.suspects import EXPERTS, LAST, MEANS, NORMS, REPLICAS, TIED
from shardlab.mesh import Mesh
from torch import Tensor
from torch.nn import functional

Gradients = dict[str, Tensor]
MOST_RANKS = 4
NOISE = 1e-6  # relative to the largest gradient; stands for sums in a different order
B, S, H, E = 8, 8, 6, 4


@dataclass(frozen=True)
class Model:
    """Weights by name, tokens [B, S], and whether each token counts [B, S]."""

    weights: Gradients
    layers: int
    tokens: Tensor
    counts: Tensor


def kind_of(name: str) -> str:
    """The kind of a weight, derived from its name as on the page."""
    if name == "token.weight":
        return "tied"
    return "norm" if "norm" in name else "expert" if "experts" in name else "dense"


def meshes() -> Iterator[Mesh]:
    """All meshes of at most MOST_RANKS ranks with axes of size 1, 2 or 4."""
    sizes = (1, 2, 4)
    for tp in sizes:
        for pp in sizes:
            for cp in sizes:
                for dp in sizes:
                    if tp * pp * cp * dp <= MOST_RANKS:
                        yield from (Mesh(tp=tp, pp=pp, cp=cp, dp=dp, ep=ep) for ep in sizes if dp * cp % ep == 0)


def key(mesh: Mesh) -> str:
    """A mesh in the page's notation."""
    return ", ".join(f"{axis} {getattr(mesh, axis)}" for axis in ("tp", "pp", "cp", "dp", "ep"))


def model(rng: Random) -> Model:
    """Fresh weights and tokens, two to four layers. More tokens count in the second half of a sequence."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    layers, vocabulary = rng.randint(2, 4), rng.randint(10, 16)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * 0.5

    weights = {"token.weight": drawn(vocabulary, H), "norm.weight": 1 + drawn(H)}
    for layer in range(layers):
        weights |= {f"blocks.{layer}.norm.weight": 1 + drawn(H), f"blocks.{layer}.up.weight": drawn(H, H)}
        weights |= {f"blocks.{layer}.key.bias": drawn(H), f"blocks.{layer}.experts.weight": drawn(E, H, H)}
    tokens = torch.randint(0, vocabulary, (B, S), generator=generator)
    prompt = torch.randint(1, S // 2, (B, 1), generator=generator)
    return Model(weights, layers, tokens, torch.arange(S) >= prompt)


def exact_gradients(model: Model, mesh: Mesh, fault: str) -> Gradients:
    """The gradients by name, in float64, joined over the ranks of a mesh."""
    uses = ("embedding",) if fault == TIED and mesh.pp > 1 else ("embedding", "head")
    seen = S // (mesh.tp if fault == NORMS else 1)
    found = _backward(model, weights_of_tokens(model.counts, mesh, fault), uses, seen)
    factor = mesh.ep if fault == EXPERTS else 1
    return {name: factor * one if kind_of(name) == "expert" else one for name, one in found.items()}


def rounded(exact: Gradients, rng: Random) -> Gradients:
    """The same gradients in float32, with the rounding error of sums in a different order."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    scale = NOISE * max(float(one.abs().max()) for one in exact.values())
    noise = {name: torch.randn(one.shape, generator=generator, dtype=torch.float64) for name, one in exact.items()}
    return {name: (one + scale * noise[name]).float() for name, one in exact.items()}


def weights_of_tokens(counts_BS: Tensor, mesh: Mesh, fault: str) -> Tensor:
    """The weight of each token's loss in the sum [B, S]."""
    valid = counts_BS.double()
    if fault == MEANS:  # each cp rank takes its own mean
        parts = valid.chunk(mesh.cp, 1)
        return torch.cat([part / (mesh.cp * part.sum()) for part in parts], 1)
    if fault == LAST and mesh.pp > 1:
        first = len(valid) // 2
        return torch.cat([0 * valid[:first], valid[first:]]) / valid.sum()
    if fault == REPLICAS:
        own = valid.chunk(mesh.dp)[0]
        return torch.cat([own, torch.zeros(len(valid) - len(own), valid.shape[1])]) / own.sum()
    return valid / valid.sum()


def _backward(model: Model, weight_BS: Tensor, uses: tuple[str, ...], seen: int) -> Gradients:
    """Gradients of the weighted sum. Norms use only the first `seen` tokens, the tied weight only these uses."""
    leaves = {name: one.clone().requires_grad_() for name, one in model.weights.items()}
    gains = {name: one for name, one in leaves.items() if kind_of(name) == "norm"}
    by_token = {name: one.detach().expand(B, S, H).clone().requires_grad_() for name, one in gains.items()}
    head = model.weights["token.weight"].clone().requires_grad_()

    x = leaves["token.weight"][model.tokens]
    for layer in range(model.layers):
        normed = functional.layer_norm(x, (H,)) * by_token[f"blocks.{layer}.norm.weight"]
        x = x + torch.tanh(normed @ leaves[f"blocks.{layer}.up.weight"])
        x = x + 0.0 * leaves[f"blocks.{layer}.key.bias"]  # softmax cancels it
        experts = leaves[f"blocks.{layer}.experts.weight"][model.tokens % E]
        x = x + torch.tanh((x.unsqueeze(2) @ experts).squeeze(2))
    logits = (functional.layer_norm(x, (H,)) * by_token["norm.weight"]) @ head.T
    nxt = model.tokens.roll(-1, 1)
    losses = functional.cross_entropy(logits.flatten(0, 1), nxt.flatten(), reduction="none").view(B, S)
    (losses * weight_BS).sum().backward()

    found = {name: one.grad for name, one in leaves.items() if one.grad is not None}
    found |= {name: one.grad[:, :seen].sum((0, 1)) for name, one in by_token.items() if one.grad is not None}
    if "head" in uses and head.grad is not None:
        found["token.weight"] = found["token.weight"] + head.grad
    return found
