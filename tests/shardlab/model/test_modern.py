"""A layer as in Llama: its norm compared with torch's, and the bytes it keeps with the formula."""

import pytest
import torch
from shardlab import meter
from shardlab.costs.layout import Layout
from shardlab.costs.memory.activations import modern_layer_tensors
from shardlab.costs.models.model import Transformer
from shardlab.model.attention import angles, rotated, turns_of
from shardlab.model.modern import ModernBlock, RMSNorm

SIZES = {  # hidden, heads, kv_heads, width of a head, ffn, sequence
    "grouped": (32, 4, 2, 8, 88, 16),
    "multi-query": (24, 6, 1, 4, 64, 9),
    "one key head each": (32, 2, 2, 16, 40, 8),
    "wide heads": (16, 4, 2, 16, 48, 12),
}


def transformer(hidden, heads, kv_heads, width, ffn, sequence):
    return Transformer("llama", 1, hidden, heads, kv_heads, ffn, 9, sequence, head_dim=width, gated=True)


def kept(model, batch):
    block = ModernBlock(model).bfloat16()
    tables = turns_of(angles(torch.arange(model.sequence), block.head_dim), torch.bfloat16)
    x = torch.randn(batch, model.sequence, model.hidden).bfloat16().requires_grad_()
    with meter.saved([*block.parameters(), *tables]) as saved:
        y = block(x, *tables)
    y.sum().backward()
    assert x.grad is not None and all(weight.grad is not None for weight in block.parameters())
    return saved


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_modern_layer_keeps_what_the_formula_says_to_the_byte(sizes, batch):
    model = transformer(*SIZES[sizes])
    measured, formula = kept(model, batch), modern_layer_tensors(model, Layout(microbatch=batch))
    assert measured.num_bytes == sum(one.num_bytes for one in formula), str(measured)
    assert len(measured.tensors) == len(formula)


def test_attention_of_the_layer_is_that_of_the_models_other_layers():
    """The same queries, keys and values through `rotated`, with heads before positions."""
    torch.manual_seed(0)
    block = ModernBlock(transformer(*SIZES["grouped"]))
    x, turns = torch.randn(2, 16, 32), angles(torch.arange(16), 8)
    y = block.norm_1(x)
    parts = (one(y).unflatten(-1, (-1, 8)).transpose(1, 2) for one in (block.queries, block.keys, block.values))
    q, k, v = parts
    attention = block.out(block.core(rotated(q, turns), rotated(k, turns), v).transpose(1, 2).flatten(2))
    half = x + attention
    normed = block.norm_2(half)
    due = half + block.down(torch.nn.functional.silu(block.gate(normed)) * block.up(normed))
    torch.testing.assert_close(block(x, *turns_of(turns, x.dtype)), due)


def test_the_norm_and_its_gradients_are_torchs():
    torch.manual_seed(0)
    x, gradient, weight = torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(8)
    ours, theirs = RMSNorm(8), torch.nn.RMSNorm(8, eps=1e-5)
    results = []
    for norm in (ours, theirs):
        norm.weight.data.copy_(weight)
        leaf = x.clone().requires_grad_()
        y = norm(leaf)
        y.backward(gradient)
        results.append((y.detach(), leaf.grad, norm.weight.grad))
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other)


def test_torchs_composed_norm_keeps_float32_copies():
    x = torch.randn(2, 5, 64).bfloat16().requires_grad_()
    saved = {}
    for norm in (RMSNorm(64).bfloat16(), torch.nn.RMSNorm(64).bfloat16()):
        with meter.saved(norm.parameters()) as held:
            norm(x)
        saved[type(norm)] = held.num_bytes
    assert saved[RMSNorm] == 10 * (2 * 64 + 4)
    assert saved[torch.nn.RMSNorm] >= 10 * 2 * 4 * 64  # two float32 copies
