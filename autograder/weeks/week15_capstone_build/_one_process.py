"""Week 15's training in one process. The learner's trainer must match it on every mesh.

A plain GPT with the weights of `mine.model`, written independently of it: whole tensors, autograd, gradient descent,
and torch's own cross entropy. It also records the experts chosen for each token.

Shapes: B sequences, S tokens each, H hidden, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Weights = dict[str, Tensor]
CHOSEN = 2  # experts per token
BIAS_RATE = 0.01
SPLIT_BY_TP = {"q": 1, "k": 1, "v": 1, "up": 1, "head": 1, "out": 0, "down": 0}  # the dimension that tp splits
DEFAULTS = {
    **{"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 1, "layers": 4, "hidden": 32, "heads": 4, "sequence": 32},
    **{"vocabulary": 64, "experts": 0, "batch": 16, "microbatches": 2, "schedule": "1f1b", "zero": 0, "steps": 10},
    **{"lr": 0.1, "optimizer": "sgd", "backend": "gloo", "seed": 0},
}


@dataclass
class OneProcess:
    """A model, its text [num, S], the routers' biases, and each layer's chosen experts in the last step [B, S, k]."""

    recipe: dict[str, Any]
    weights: Weights
    text: Tensor
    biases: dict[int, Tensor] = field(default_factory=dict)
    chosen: dict[int, Tensor] = field(default_factory=dict)
    gradients: Weights = field(default_factory=dict)

    def step(self, numbers: list[int]) -> float:
        """One step of gradient descent on these sequences; returns the mean loss before it."""
        leaves = {name: one.clone().requires_grad_() for name, one in self.weights.items()}
        tokens = self.text[numbers]
        logits = self.logits(leaves, tokens)[:, :-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        self.gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        self.weights = {name: one - self.recipe["lr"] * self.gradients[name] for name, one in self.weights.items()}
        for layer in self.chosen:
            load = torch.bincount(self.chosen[layer].flatten(), minlength=self.recipe["experts"])
            self.biases[layer] = self.biases[layer] + BIAS_RATE * torch.sign(load.sum() - len(load) * load)
        return float(loss.detach())

    def logits(self, w: Weights, inputs: Tensor) -> Tensor:
        """Logits [B, S, V]; the last token of a sequence has no label, but its experts count towards the load."""
        num = inputs.shape[1]
        x = w["embed.token"][inputs] + w["embed.position"][:num]
        for layer in range(self.recipe["layers"]):
            own = {name.split(".", 1)[1]: one for name, one in w.items() if name.startswith(f"{layer}.")}
            x = x + self._attention(own, _norm(x, own, "norm1"))
            x = x + self._feed_forward(own, _norm(x, own, "norm2"), layer)
        return _norm(x, {name[5:]: one for name, one in w.items() if name.startswith("last.")}, "norm") @ w["last.head"]

    def _attention(self, w: Weights, x: Tensor) -> Tensor:
        q, k, v = ((x @ w[name]).unflatten(2, (self.recipe["heads"], -1)).transpose(1, 2) for name in "qkv")
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return o.transpose(1, 2).flatten(2) @ w["out"]

    def _feed_forward(self, w: Weights, x: Tensor, layer: int) -> Tensor:
        if not self.recipe["experts"]:
            return functional.gelu(x @ w["up"]) @ w["down"]
        scores = torch.sigmoid(x @ w["router"])
        bias = self.biases.setdefault(layer, torch.zeros(self.recipe["experts"]))
        self.chosen[layer] = (scores.detach() + bias).topk(CHOSEN, -1).indices
        scales = scores.gather(-1, self.chosen[layer])
        scales = scales / scales.sum(-1, keepdim=True)
        up, down = w["expert.up"][self.chosen[layer]], w["expert.down"][self.chosen[layer]]  # [B, S, k, H, F], …
        inner = functional.gelu(x[:, :, None, None] @ up)
        return ((inner @ down).squeeze(3) * scales[..., None]).sum(2)


def _norm(x: Tensor, w: Weights, name: str) -> Tensor:
    return functional.layer_norm(x, x.shape[2:], w[f"{name}.gain"], w[f"{name}.shift"])


def own_part(name: str, whole: Tensor, places: dict[str, int], recipe: dict[str, Any]) -> Tensor:
    """A rank's part of a weight or of its gradient."""
    last = name.rsplit(".", maxsplit=1)[-1]
    if ".expert." in name:
        return whole.chunk(recipe["ep"])[places["ep"]]
    if last in SPLIT_BY_TP:
        return whole.chunk(recipe["tp"], SPLIT_BY_TP[last])[places["tp"]]
    return whole
