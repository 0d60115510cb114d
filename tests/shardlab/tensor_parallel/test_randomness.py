"""Masks on real ranks: equal for replicated activations, different for split ones."""

from itertools import combinations

import pytest
import shardlab
import torch
from shardlab import meter
from shardlab.model.dropout import Dropout
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.recomputation import recompute
from shardlab.tensor_parallel.gpt import gpt_plan, vocabulary_parallel_loss
from shardlab.tensor_parallel.plan import RandomStreams, apply_plan

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
