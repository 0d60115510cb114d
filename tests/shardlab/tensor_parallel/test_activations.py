"""Activations, random numbers, and a split vocabulary."""

from functools import partial
from itertools import combinations

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs.layout import Layout
from shardlab.costs.memory.activations import (
    cache_bytes,
    latent_attention_bytes,
    layer_activation_bytes_exactly,
    layer_activation_tensors,
)
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.models.model import Latent, Transformer
from shardlab.costs.models.zoo import find_model
from shardlab.meter.held import saved
from shardlab.model.attention import LatentAttention, angles, turned, turns_of
from shardlab.model.dropout import Dropout
from shardlab.model.gpt import GPT, Block, GPTConfig
from shardlab.model.recomputation import recompute
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gpt import block_plan, gpt_plan, vocabulary_parallel_loss
from shardlab.tensor_parallel.plan import RandomStreams, apply_plan
from shardlab.tensor_parallel.vocabulary import (
    VocabularyParallelEmbedding,
    vocabulary_cut,
    vocabulary_parallel_cross_entropy,
)
from torch import nn
from torch.nn import functional

# ---- Activations of real blocks match the formula exactly: split or not, any attention, any recomputation. -----------

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


@pytest.mark.parametrize("value", [12, 20, 5])  # 12 is the keys' width: one kernel; otherwise scores are kept
def test_latent_attention_keeps_what_the_formula_says(value):
    layer, length = LatentAttention(48, 3, 10, 6, nope=8, rope=4, value=value), 20
    turns = turns_of(angles(torch.arange(length), 4), torch.float32)
    with saved([*layer.parameters(), *turns]) as kept:
        layer(torch.randn(length, 48), turns)
    sizes = Latent(q_rank=10, kv_rank=6, nope=8, rope=4, value=value)
    model = Transformer("latent", 1, 48, 3, 3, 1, 1, length, head_dim=1, latent=sizes, flash=value == 12)
    parts = layer_activation_tensors(model, Layout(), dropout=False, bytes_each=4)
    block = 4 * length * 48
    assert kept.num_bytes == block + sum(one.num_bytes for one in parts if one.inside.startswith("attention"))
    if model.flash:
        assert kept.num_bytes == length * latent_attention_bytes(model, bytes_each=4)


def test_latent_attention_is_attention_with_keys_from_the_latent():
    torch.manual_seed(0)
    layer, x = LatentAttention(16, 2, 5, 6, nope=3, rope=2, value=4), torch.randn(7, 16)
    turns = turns_of(angles(torch.arange(7), 2), torch.float32)
    latent = functional.rms_norm(layer.kv_down(x), (6,))
    queries = layer.q_up(functional.rms_norm(layer.q_down(x), (5,))).view(7, 2, 5)
    heads = []
    for head in range(2):
        key = torch.cat([latent @ layer.k_up.weight.view(2, 3, 6)[head].T, turned(layer.shared_key(x), *turns)], -1)
        query = torch.cat([queries[:, head, :3], turned(queries[:, head, 3:], *turns)], -1)
        scores = (query @ key.T / 5**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
        heads.append(scores.softmax(-1) @ (latent @ layer.v_up.weight.view(2, 4, 6)[head].T))
    torch.testing.assert_close(layer(x, turns), layer.out(torch.cat(heads, -1)))


def test_repeating_the_up_projections_leaves_latents_and_the_output():
    v3 = find_model("deepseek-v3")
    assert latent_attention_bytes(v3) == 186_888 and latent_attention_bytes(v3, expanded_again=True) == 51_840
    assert cache_bytes(v3) == 2 * (512 + 64) and cache_bytes(find_model("llama3-8b")) == 2 * 2 * 1024
    with pytest.raises(ValueError, match="no latent attention"):
        latent_attention_bytes(find_model("llama3-8b"))


# ---- Masks on real ranks: equal for replicated activations, different for split ones. --------------------------------

CONFIG = GPTConfig(layers=1, hidden=16, heads=4, sequence=8, vocabulary=16, dropout=0.5, flash=False)


def masks(sequence_parallel, seed):
    """Every dropout's mask of one forward, by path."""
    model = apply_plan(GPT(CONFIG), gpt_plan(CONFIG, sequence_parallel=sequence_parallel), group=None, seed=seed)
    torch.manual_seed(torch.distributed.get_rank())  # torch's own generator must not matter
    seen = {}
    for path, module in model.named_modules():
        if isinstance(module, Dropout):
            draw = module.dropped
            module.dropped = lambda x, path=path, draw=draw: seen.setdefault(path, draw(x))
    model(torch.zeros(2, 8, dtype=torch.long))
    return seen


def are_same(by_rank, path):
    return [torch.equal(one[path], other[path]) for one, other in combinations(by_rank, 2)]


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_masks_are_shared_where_numbers_are(sequence_parallel):
    by_rank = shardlab.run(masks, sequence_parallel, 3, ranks=4, timeout=60)
    assert len(by_rank[0]) == 4
    for path in by_rank[0]:
        is_split = sequence_parallel or path.endswith("core.dropout")
        assert set(are_same(by_rank, path)) == {not is_split}, path


def test_a_seed_gives_the_same_masks_again_and_another_seed_others():
    first, again, other = (shardlab.run(masks, False, seed, ranks=2, timeout=60)[1] for seed in (3, 3, 4))
    for path in first:
        assert torch.equal(first[path], again[path]) and not torch.equal(first[path], other[path])


def resumed():
    streams = RandomStreams(5, group=None)
    torch.rand(3, generator=streams.split)
    state = streams.state()
    drawn = [torch.rand(4, generator=one) for one in (streams.replicated, streams.split)]
    streams.set_state(state)
    again = [torch.rand(4, generator=one) for one in (streams.replicated, streams.split)]
    return all(map(torch.equal, drawn, again))


def test_streams_go_on_where_their_state_was_kept():
    assert all(shardlab.run(resumed, ranks=2, timeout=30))


def step(pattern, sequence_parallel):
    """Gradients of a step whose dropouts draw from the streams, and its messages, by recomputed part."""
    torch.manual_seed(7)
    model = apply_plan(GPT(CONFIG), gpt_plan(CONFIG, sequence_parallel=sequence_parallel), group=None, seed=3)
    if pattern:
        recompute(model, pattern)
    tokens = torch.arange(16).view(2, 8)
    with meter.record() as bill:
        logits = model(tokens)
        vocabulary_parallel_loss(logits, tokens, vocabulary=CONFIG.vocabulary, group=None).backward()
    return [parameter.grad for parameter in model.parameters()], len(bill.kinds)


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
def test_recomputation_repeats_both_random_streams_and_its_messages(sequence_parallel):
    """A layer's forward sends 2 (TP) or 4 (SP) messages; its attention core sends none."""
    due = shardlab.run(step, "", sequence_parallel, ranks=2, timeout=60)
    for pattern, more in (("blocks.*.attention.core", 0), ("blocks.*", 4 if sequence_parallel else 2)):
        got = shardlab.run(step, pattern, sequence_parallel, ranks=2, timeout=60)
        for (gradients, sent), (others, sent_again) in zip(due, got, strict=True):
            assert all(map(torch.equal, gradients, others)) and sent_again == sent + more


# ---- A split embedding and the loss of split logits compared with torch's, for odd vocabularies, with smoothing. -----


def own(tensor, dim, vocabulary):
    return Cut((vocabulary,), dim, padded=True).part(tensor, dist.get_rank(), dist.get_world_size())


def embedded(vocabulary):
    torch.manual_seed(0)
    whole = nn.Embedding(vocabulary, 5)
    tokens = torch.arange(vocabulary).repeat(2, 2)
    part = VocabularyParallelEmbedding(whole, group=None)
    due, got = whole(tokens), part(tokens)
    weights = torch.randn_like(due)
    (due * weights).sum().backward()
    (got * weights).sum().backward()
    torch.testing.assert_close(got, due)
    torch.testing.assert_close(part.weight.grad, own(whole.weight.grad, 0, vocabulary))
    return len(part.weight)


@pytest.mark.parametrize(("vocabulary", "ranks"), [(12, 1), (12, 3), (13, 3), (9, 4), (3, 4)])
def test_a_split_embedding_is_the_whole_one(vocabulary, ranks):
    assert shardlab.run(embedded, vocabulary, ranks=ranks, timeout=30) == [-(-vocabulary // ranks)] * ranks


def losses(vocabulary, smoothing, dtype):
    """Differences of loss and gradient from torch's: per token, and for tokens with different weights."""
    generator = torch.Generator().manual_seed(1)
    logits = (9 * torch.randn(2, 7, vocabulary, generator=generator)).to(dtype)
    targets = torch.randint(vocabulary, (2, 7), generator=generator)
    weights = torch.rand(2, 7, generator=generator)
    whole = logits.clone().requires_grad_()
    due = functional.cross_entropy(
        whole.float().flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing
    ).view(2, 7)
    (due * weights).sum().backward()
    part = own(logits, -1, vocabulary)
    columns = part.shape[-1]
    part[..., max(0, min(columns, vocabulary - dist.get_rank() * columns)) :] = 1e4  # padding must not count
    part.requires_grad_()
    got = vocabulary_parallel_cross_entropy(part, targets, vocabulary=vocabulary, group=None, label_smoothing=smoothing)
    (got * weights).sum().backward()
    apart = (part.grad.float() - own(whole.grad, -1, vocabulary).float()).abs().max().item()
    return (got - due).abs().max().item(), apart, got.dtype == torch.float32 and part.grad.dtype == dtype, got.tolist()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("vocabulary", "ranks"), [(12, 1), (12, 4), (13, 4), (9, 4), (5, 4)])
def test_the_loss_of_split_logits_is_torchs(vocabulary, ranks, smoothing):
    by_rank = shardlab.run(losses, vocabulary, smoothing, torch.float32, ranks=ranks, timeout=30)
    for loss, gradient, is_typed, numbers in by_rank:
        assert loss < 1e-5 and gradient < 1e-6 and is_typed
        assert numbers == by_rank[0][3]  # the same bits on every rank


def test_in_bfloat16_the_loss_is_computed_in_float32():
    for loss, gradient, is_typed, _ in shardlab.run(losses, 13, 0.1, torch.bfloat16, ranks=2, timeout=30):
        assert loss < 1e-5 and gradient < 1e-2 and is_typed


def test_vocabularies_are_padded_until_the_ranks_divide_them():
    whole = torch.arange(10.0).view(5, 2)
    parts = [vocabulary_cut(5).part(whole, rank, 4) for rank in range(4)]
    assert [part.shape[0] for part in parts] == [2] * 4
    assert parts[2].tolist() == [[8, 9], [0, 0]] and parts[3].tolist() == [[0, 0], [0, 0]]
    assert torch.equal(vocabulary_cut(5).join(parts), whole)
