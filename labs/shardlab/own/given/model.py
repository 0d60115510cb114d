"""A small GPT as functions of a dict of weights. With groups of one rank it is the single-process model.

Shapes: S positions of this cp rank, T = S / tp of them on this tp rank, B sequences, H hidden, D head width.
"""

import torch
from mine import expert_parallel, long_context, moe, tensor_parallel
from mine.sequence_parallel import gather_sequence, mlp_block, scatter_sequence
from torch.nn.functional import layer_norm, scaled_dot_product_attention

SPLIT_BY_TP = {"q": 1, "k": 1, "v": 1, "up": 1, "head": 1, "out": 0, "down": 0}  # the dimension that tp splits
CHOSEN = 2  # experts per token


def new_weights(recipe):
    """The whole model's weights by name, "block.name"; blocks are "embed", the layer numbers, and "last"."""
    h, n, generator = recipe.hidden, recipe.experts, torch.Generator().manual_seed(recipe.seed)
    norm1, norm2 = ({f"{name}.gain": (h,), f"{name}.shift": (h,)} for name in ("norm1", "norm2"))
    experts = {"router": (h, n), "expert.up": (n, h, 2 * h), "expert.down": (n, 2 * h, h)}
    layer = norm1 | dict.fromkeys(("q", "k", "v", "out"), (h, h)) | norm2
    layer |= experts if n else {"up": (h, 4 * h), "down": (4 * h, h)}
    shapes = {"embed.token": (recipe.vocabulary, h), "embed.position": (recipe.sequence, h)}
    shapes |= {f"{number}.{name}": shape for number in range(recipe.layers) for name, shape in layer.items()}
    shapes |= {"last.norm.gain": (h,), "last.norm.shift": (h,), "last.head": (h, recipe.vocabulary)}
    return {
        name: 0.2 * torch.randn(shape, generator=generator, device="cpu")
        if len(shape) > 1
        else torch.full(shape, float(name.endswith("gain")), device="cpu")
        for name, shape in shapes.items()
    }


def kind_of(name):
    """ "expert"; "split" for weights that tp splits; "norm" for those that see only this tp rank's positions."""
    return "expert" if ".expert." in name else "split" if name.split(".")[-1] in SPLIT_BY_TP else "norm"


def new_text(recipe):
    """64 sequences (64, S) in which the next token is mostly determined by the current one."""
    numbers, places = torch.arange(64, device="cpu"), torch.arange(recipe.sequence, device="cpu")
    noise = torch.randint(3, (64, recipe.sequence), generator=torch.Generator().manual_seed(recipe.seed), device="cpu")
    return ((5 * places + numbers[:, None]).cumsum(1) + noise) % recipe.vocabulary


class RingAttention(torch.autograd.Function):
    """Week 14's two halves as one operator."""

    @staticmethod
    def forward(ctx, q, k, v, positions, group):
        o, lse = long_context.ring_attention(q, k, v, positions, group=group)
        ctx.group = group
        ctx.save_for_backward(q, k, v, o, lse, positions)
        return o

    @staticmethod
    def backward(ctx, gradient):
        return *long_context.ring_backward(gradient, *ctx.saved_tensors, group=ctx.group), None, None


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


def layer(positions, balance, recipe, groups, x, w):
    """Attention, then an MLP or two experts per token; x (T, B, H). `balance` counts the tokens of each expert."""
    x = attention(x, w, positions, recipe, groups)
    if not recipe.experts:
        return mlp_block(x, w["norm2.gain"], w["norm2.shift"], w["up"], w["down"], group=groups["tp"])
    rows = layer_norm(x, x.shape[2:], w["norm2.gain"], w["norm2.shift"]).flatten(0, 1)
    experts, scales = moe.choose(rows @ w["router"], balance["bias"], CHOSEN, torch.sigmoid, True)
    balance["load"] += torch.bincount(experts.flatten(), minlength=recipe.experts)
    parts = w["expert.up"], w["expert.down"]
    return x + expert_parallel.expert_layer(rows, experts, scales, *parts, group=groups["ep"]).view_as(x)


def sum_of_losses(x, w, labels, recipe, groups):
    """The sum of the losses of this cp rank's tokens that have a label (-100 means no label)."""
    normed = layer_norm(x, x.shape[2:], w["norm.gain"], w["norm.shift"])
    logits = (gather_sequence(normed, group=groups["tp"]) @ w["head"]).flatten(0, 1)
    targets = labels.T.flatten()
    losses, gradient = tensor_parallel.vocabulary_loss(logits.detach(), targets, recipe.vocabulary, group=groups["tp"])
    slope = (logits * gradient).sum(1) * len(targets)  # `gradient` is that of the mean, and we need that of the sum
    return (losses + slope - slope.detach()).where(targets != -100, 0).sum()  # slope adds its gradient and no value
