"""A small GPT as functions of a dict of weights. With groups of one rank it is the single-process model.

Shapes: S positions of this cp rank, T = S / tp of them on this tp rank, B sequences, H hidden, D head width.
"""

import torch
from mine.expert_parallel import expert_layer
from mine.long_context import ring_attention, ring_backward
from mine.moe import choose
from mine.sequence_parallel import gather_sequence, mlp_block, scatter_sequence
from mine.tensor_parallel import vocabulary_loss
from torch.nn.functional import layer_norm, scaled_dot_product_attention

SPLIT_BY_TP = {"q": 1, "k": 1, "v": 1, "up": 1, "head": 1, "out": 0, "down": 0}  # the dimension that tp splits
CHOSEN = 2  # experts per token


def new_weights(recipe):
    """The whole model's weights by name, "block.name"; blocks are "embed", the layer numbers, and "last"."""
    generator, h = torch.Generator().manual_seed(recipe.seed), recipe.hidden

    def normal(*shape):
        return 0.2 * torch.randn(*shape, generator=generator, device="cpu")

    def norm(name):
        return {f"{name}.gain": torch.ones(h, device="cpu"), f"{name}.shift": torch.zeros(h, device="cpu")}

    weights = {"embed.token": normal(recipe.vocabulary, h), "embed.position": normal(recipe.sequence, h)}
    for layer in range(recipe.layers):
        own = norm("norm1") | {name: normal(h, h) for name in ("q", "k", "v", "out")} | norm("norm2")
        if n := recipe.experts:
            own |= {"router": normal(h, n), "expert.up": normal(n, h, 2 * h), "expert.down": normal(n, 2 * h, h)}
        else:
            own |= {"up": normal(h, 4 * h), "down": normal(4 * h, h)}
        weights |= {f"{layer}.{name}": weight for name, weight in own.items()}
    weights |= {f"last.{name}": one for name, one in norm("norm").items()}
    return weights | {"last.head": normal(h, recipe.vocabulary)}


def kind_of(name):
    """ "expert"; "split" for weights that tp splits; "norm" for those that see only this tp rank's positions."""
    if ".expert." in name:
        return "expert"
    return "split" if name.split(".")[-1] in SPLIT_BY_TP else "norm"


def new_text(recipe):
    """64 sequences (64, S) in which the next token is mostly determined by the current one."""
    numbers, places = torch.arange(64, device="cpu"), torch.arange(recipe.sequence, device="cpu")
    noise = torch.randint(3, (64, recipe.sequence), generator=torch.Generator().manual_seed(recipe.seed), device="cpu")
    return ((5 * places + numbers[:, None]).cumsum(1) + noise) % recipe.vocabulary


class RingAttention(torch.autograd.Function):
    """Week 14's two halves as one operator."""

    @staticmethod
    def forward(ctx, q, k, v, positions, group):
        o, lse = ring_attention(q, k, v, positions, group=group)
        ctx.group = group
        ctx.save_for_backward(q, k, v, o, lse, positions)
        return o

    @staticmethod
    def backward(ctx, gradient):
        return *ring_backward(gradient, *ctx.saved_tensors, group=ctx.group), None, None


class VocabularyLoss(torch.autograd.Function):
    """Week 5's losses [tokens] of column-split logits. Its gradient is of their mean; we need that of their sum."""

    @staticmethod
    def forward(ctx, logits, targets, vocabulary, group):
        losses, gradient = vocabulary_loss(logits, targets, vocabulary, group=group)
        ctx.save_for_backward(gradient * len(targets))
        return losses

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, None] * ctx.saved_tensors[0], None, None, None


def embed(w, inputs, positions, groups):
    """x (T, B, H) of this rank's positions, from inputs (B, S)."""
    tokens, places = (one.chunk(groups["tp"].size())[groups["tp"].rank()] for one in (inputs.T, positions))
    return w["token"][tokens] + w["position"][places][:, None]


def attention(x, w, positions, recipe, groups):
    """x (T, B, H) plus attention over all positions of all cp ranks."""
    whole = gather_sequence(layer_norm(x, x.shape[2:], w["norm1.gain"], w["norm1.shift"]), group=groups["tp"])
    width = recipe.hidden // recipe.heads
    q, k, v = ((whole @ w[name]).unflatten(2, (-1, width)).permute(1, 2, 0, 3) for name in "qkv")
    if recipe.cp == 1:  # every key is local, so use torch's own kernel
        o = scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        o = RingAttention.apply(*(one.contiguous() for one in (q, k, v)), positions, groups["cp"])
    return x + scatter_sequence(o.permute(2, 0, 1, 3).flatten(2) @ w["out"], group=groups["tp"])  # (S, B, H / tp)


def feed_forward(x, w, balance, recipe, groups):
    """x (T, B, H) plus an MLP, or plus two experts per token; `balance` counts the tokens of each expert."""
    if not recipe.experts:
        return mlp_block(x, w["norm2.gain"], w["norm2.shift"], w["up"], w["down"], group=groups["tp"])
    rows = layer_norm(x, x.shape[2:], w["norm2.gain"], w["norm2.shift"]).flatten(0, 1)
    experts, scales = choose(rows @ w["router"], balance["bias"], CHOSEN, torch.sigmoid, True)
    balance["load"] += torch.bincount(experts.flatten(), minlength=recipe.experts)
    return x + expert_layer(rows, experts, scales, w["expert.up"], w["expert.down"], group=groups["ep"]).view_as(x)


def layer(positions, balance, recipe, groups, x, w):
    """One layer: x (T, B, H) in and out."""
    return feed_forward(attention(x, w, positions, recipe, groups), w, balance, recipe, groups)


def sum_of_losses(x, w, labels, recipe, groups):
    """The sum of the losses of this cp rank's tokens that have a label (-100 means no label)."""
    normed = layer_norm(x, x.shape[2:], w["norm.gain"], w["norm.shift"])
    logits = (gather_sequence(normed, group=groups["tp"]) @ w["head"]).flatten(0, 1)
    targets = labels.T.flatten()
    losses = VocabularyLoss.apply(logits, targets, recipe.vocabulary, groups["tp"])
    return losses.where(targets != -100, 0).sum()
