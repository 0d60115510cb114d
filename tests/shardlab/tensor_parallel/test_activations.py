"""Activations of real blocks match the formula exactly: split or not, any attention, any recomputation."""

from functools import partial

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.costs.layout import Layout
from shardlab.costs.memory.activations import layer_activation_bytes_exactly, layer_activation_tensors
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.models.model import Transformer
from shardlab.meter.held import saved
from shardlab.model.gpt import Block, GPTConfig
from shardlab.model.recomputation import recompute
from shardlab.tensor_parallel.gpt import block_plan
from shardlab.tensor_parallel.plan import apply_plan
from torch import nn

MICROBATCH = 3
SMALL = partial(GPTConfig, layers=1, hidden=32, heads=4, sequence=8, dropout=0.1, flash=False)
CONFIGS = {
    "scores": SMALL(),
    "grouped": SMALL(kv_heads=2),
    "multi-query": SMALL(kv_heads=1),
    "gated": SMALL(gated=True),
    "no dropout": SMALL(dropout=0.0),
    "flash": SMALL(flash=True),
    "flash, grouped, gated, no dropout": SMALL(flash=True, kv_heads=2, gated=True, dropout=0.0),
}
RECOMPUTED = {
    "none": (),
    "selective": ("attention.core",),
    "attention": ("attention",),
    "norms": ("norm_1", "norm_2"),
    "full": ("",),
}


def transformer(config):
    kv_heads = config.kv_heads or config.heads
    return Transformer(
        "a block", 1, config.hidden, config.heads, kv_heads, 4 * config.hidden, 9, config.sequence,
        gated=config.gated, flash=config.flash,
    )  # fmt: skip


def measured(config, sequence_parallel, recomputed, dtype):
    """Bytes that a block keeps, and a description of the kept tensors."""
    block = apply_plan(Block(config).to(dtype), block_plan(config, sequence_parallel=sequence_parallel), group=None)
    layers = nn.ModuleList([block])
    for path in recomputed:
        recompute(layers, f"0.{path}".rstrip("."))
    length = config.sequence // (dist.get_world_size() if sequence_parallel else 1)
    x = torch.randn(MICROBATCH, length, config.hidden, dtype=dtype, requires_grad=True)
    with saved(block.parameters()) as kept:
        y = block(x)
    y.sum().backward()
    return kept.num_bytes, str(kept)


def measured_in_all_ways(config):
    """{(sequence parallel, recomputed): bytes and description}, so that ranks are started once for ten blocks."""
    ways = [(split, name) for split in (False, True) for name in RECOMPUTED if not split or dist.get_world_size() > 1]
    return {way: measured(config, way[0], RECOMPUTED[way[1]], torch.bfloat16) for way in ways}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_block_keeps_what_the_formula_says_to_the_byte(config, ranks):
    config = CONFIGS[config]
    for by_way in shardlab.run(measured_in_all_ways, config, ranks=ranks, timeout=60):
        assert len(by_way) == (5 if ranks == 1 else 10)
        for (sequence_parallel, name), (num_bytes, words) in by_way.items():
            layout = Layout(tp=ranks, sequence_parallel=sequence_parallel, microbatch=MICROBATCH)
            due = layer_activation_bytes_exactly(
                transformer(config), layout, dropout=config.dropout > 0, recomputed=RECOMPUTED[name]
            )
            assert num_bytes == due, f"{name}, sequence parallel {sequence_parallel}:\n{words}"


def every_kth_recomputed(config, sequence_parallel, every):
    """Bytes kept by four blocks of which each `every`th is recomputed."""
    block = nn.Sequential(*(Block(config).bfloat16() for _ in range(4)))
    plan = {f"*.{path}": split for path, split in block_plan(config, sequence_parallel=sequence_parallel).items()}
    blocks = recompute(apply_plan(block, plan, group=None), "*", every=every)
    length = config.sequence // (dist.get_world_size() if sequence_parallel else 1)
    x = torch.randn(MICROBATCH, length, config.hidden, dtype=torch.bfloat16, requires_grad=True)
    with saved(blocks.parameters()) as kept:
        blocks(x)
    return kept.num_bytes


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
@pytest.mark.parametrize(("every", "num_recomputed"), [(1, 4), (2, 2), (3, 2)])
def test_of_every_kth_block_only_the_input_is_kept(every, num_recomputed, sequence_parallel):
    layout = Layout(tp=2, sequence_parallel=sequence_parallel, microbatch=MICROBATCH)
    whole, full = (
        layer_activation_bytes_exactly(transformer(SMALL()), layout, dropout=True, recomputed=paths)
        for paths in ((), ("",))
    )
    due = num_recomputed * full + (4 - num_recomputed) * whole
    assert shardlab.run(every_kth_recomputed, SMALL(), sequence_parallel, every, ranks=2) == [due] * 2


def test_in_float32_numbers_take_four_bytes_and_masks_one():
    due = layer_activation_bytes_exactly(
        transformer(SMALL()), Layout(microbatch=MICROBATCH), dropout=True, bytes_each=4
    )
    assert shardlab.run(measured, SMALL(), False, (), torch.float32, ranks=1)[0][0] == due


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize(("tp", "sequence_parallel"), [(1, False), (4, False), (4, True)])
def test_the_papers_table_and_the_small_terms_are_the_whole(tp, sequence_parallel, recompute):
    """s 2048, b 2, h 1024, a 16: table 2 of arXiv 2205.05198, plus 8sb for the norms' statistics."""
    s, b, h, a = 2048, 2, 1024, 16
    model = Transformer("GPT", 1, h, a, a, 4 * h, 50257, s, flash=False)
    layout = Layout(tp=tp, sequence_parallel=sequence_parallel, microbatch=b, recompute=recompute)
    printed = gpt_layer_activation_bytes(s, b, h, a, tp, sequence_parallel=sequence_parallel, recompute=recompute)
    if recompute == "full":  # the paper prints 2sbh for both, but a split sequence is kept in parts
        printed, statistics = printed / (tp if sequence_parallel else 1), 0
    else:
        statistics = 8 * s * b / (tp if sequence_parallel else 1)
    assert layer_activation_bytes_exactly(model, layout, dropout=True) == printed + statistics


def test_one_kernel_keeps_a_sum_of_exponentials_for_each_head_and_token():
    s, b, h, a = 2048, 2, 1024, 16
    model = Transformer("GPT", 1, h, a, a, 4 * h, 50257, s)
    total = layer_activation_bytes_exactly(model, Layout(microbatch=b), dropout=True)
    assert total == s * b * h * (34 + 8 / h + 4 * a / h)
    names = [one.name for one in layer_activation_tensors(model, Layout(), dropout=False)]
    assert "sums of exponentials" in names and not any("mask" in name or "softmax" in name for name in names)
