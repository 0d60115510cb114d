"""A split GPT compared with the whole one: weights over ten steps, given masks, messages, bytes, and refusals."""

from functools import partial

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes
from shardlab.model.dropout import Dropout
from shardlab.model.gpt import GPT, Block, GPTConfig, next_token_loss
from shardlab.tensor_parallel.checkpoint import parted
from shardlab.tensor_parallel.gpt import block_plan, gpt_plan, vocabulary_parallel_loss
from shardlab.tensor_parallel.gradients import cuts_of, sum_partial_gradients
from shardlab.tensor_parallel.plan import apply_plan
from shardlab.tensor_parallel.splits import Column, Heads, Row, Vocabulary
from torch import nn

SMALL = partial(GPTConfig, layers=2, hidden=16, heads=8, sequence=8, vocabulary=32)
STEPS = 10
sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
adam = partial(torch.optim.AdamW, lr=1e-2)


def new_model(config, dtype):
    torch.manual_seed(11)
    model = GPT(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)  # biases too, so that one added twice is detected
    return model.to(dtype)


def batch(config, step):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(config.vocabulary, (2, 2, config.sequence), generator=generator)


def give_masks(model, config, of_whole):
    """Let each dropout take its mask from a list that does not depend on the ranks: `of_whole(path, mask)`."""
    for number, (path, module) in enumerate(model.named_modules()):
        if isinstance(module, Dropout):
            generator = torch.Generator().manual_seed(number)
            module.dropped = partial(given_mask, path, generator, config, of_whole)


def given_mask(path, generator, config, of_whole, x):
    length = config.sequence
    shape = (2, config.heads, length, length) if path.endswith("core.dropout") else (2, length, config.hidden)
    mask = torch.rand(shape, generator=generator) < config.dropout
    return of_whole(path, mask).reshape(x.shape)


def part_of_mask(sequence_parallel, path, mask):
    """This rank's part of a mask: its heads for scores, or its part of a split sequence."""
    if sequence_parallel or path.endswith("core.dropout"):
        return mask.chunk(dist.get_world_size(), 1)[dist.get_rank()]
    return mask


def trained(model, config, new_optimizer, loss_of, finish=lambda: None):
    optimizer = new_optimizer(model.parameters())
    losses = []
    for step in range(STEPS):
        tokens, targets = batch(config, step)
        optimizer.zero_grad()
        loss = loss_of(model(tokens), targets)
        loss.backward()
        finish()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compared(config, dtype, sequence_parallel, new_optimizer):
    """The largest difference of weights and of losses from one process, after ten steps."""
    torch.set_num_threads(1)
    whole, part = new_model(config, dtype), new_model(config, dtype)
    apply_plan(part, gpt_plan(config, sequence_parallel=sequence_parallel), group=None)
    give_masks(whole, config, lambda path, mask: mask)
    give_masks(part, config, partial(part_of_mask, sequence_parallel))
    due = trained(whole, config, new_optimizer, next_token_loss)
    split_loss = partial(vocabulary_parallel_loss, vocabulary=config.vocabulary, group=None)
    got = trained(part, config, new_optimizer, split_loss, lambda: sum_partial_gradients(part, group=None))

    named = dict(whole.named_parameters(remove_duplicate=False))
    cut = parted(named, cuts_of(part), rank=dist.get_rank(), size=dist.get_world_size())
    mine = dict(part.named_parameters(remove_duplicate=False))
    assert mine.keys() == cut.keys() and (part.head.weight is part.token.weight) == config.tied
    apart = max((mine[name] - cut[name]).abs().max().item() for name in mine)
    return apart, max(abs(one - other) for one, other in zip(got, due, strict=True))


CASES = {
    "heads": SMALL(),
    "grouped": SMALL(kv_heads=4),
    "shared by two": SMALL(kv_heads=2),
    "multi-query": SMALL(kv_heads=1),
    "gated": SMALL(gated=True),
    "odd vocabulary, untied": SMALL(vocabulary=13, tied=False),
    "odd vocabulary, tied": SMALL(vocabulary=9),
    "scores": SMALL(flash=False, kv_heads=2),
    "dropout": SMALL(dropout=0.3, flash=False),
    "all": SMALL(dropout=0.2, flash=False, kv_heads=2, gated=True, vocabulary=13),
}


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", list(CASES))
def test_ten_steps_end_with_the_weights_of_one_process(case, ranks, sequence_parallel):
    for weights, losses in shardlab.run(
        compared, CASES[case], torch.float32, sequence_parallel, sgd, ranks=ranks, timeout=120
    ):
        assert weights < 1e-5 and losses < 1e-5


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
@pytest.mark.parametrize("case", ["heads", "all"])
@pytest.mark.parametrize(
    ("dtype", "optimizer", "most"), [(torch.float32, sgd, 1e-5), (torch.float64, adam, 1e-9)], ids=["SGD", "Adam"]
)
def test_so_do_eight_ranks_and_adam_in_double_precision(dtype, optimizer, most, case, sequence_parallel):
    for weights, losses in shardlab.run(
        compared, CASES[case], dtype, sequence_parallel, optimizer, ranks=8, timeout=150
    ):
        assert weights < most and losses < most


def bill_of_a_block(config, sequence_parallel):
    block = apply_plan(Block(config), block_plan(config, sequence_parallel=sequence_parallel), group=None)
    x = torch.randn(2, config.sequence, config.hidden).chunk(dist.get_world_size() if sequence_parallel else 1, 1)[0]
    with meter.record() as forward:
        y = block(x.clone().requires_grad_())
    with meter.record() as backward:
        y.sum().backward()
    with meter.record() as finish:
        sum_partial_gradients(block, group=None)
    split = sum(block.get_parameter(name).numel() for name in cuts_of(block))
    return [[(e.kind, e.payload_bytes) for e in bill.events] for bill in (forward, backward, finish)], (
        forward.sent_bytes,
        backward.sent_bytes,
        split,
    )


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("config", [SMALL(), SMALL(gated=True, kv_heads=4)], ids=["GELU", "SwiGLU, grouped"])
def test_a_layer_has_two_all_reduces_each_way(ranks, config):
    payload = 4 * 2 * config.sequence * config.hidden  # fp32, two sequences
    sent = 2 * ring_all_reduce_bytes(ranks, payload)
    h, kv, ffn = config.hidden, 2 * (config.kv_heads or config.heads), (8 if config.gated else 4) * config.hidden
    split = (h + 2 * kv) * (h + 1) + h * h + ffn * (h + 1) + 4 * h * h
    for bills, numbers in shardlab.run(bill_of_a_block, config, False, ranks=ranks, timeout=60):
        assert bills == [[("all_reduce", payload)] * 2, [("all_reduce", payload)] * 2, []]
        assert numbers == (sent, sent, split // ranks)


@pytest.mark.parametrize("ranks", [2, 4])
def test_sequence_parallelism_has_two_pairs_and_two_more_gathers(ranks):
    """In the backward, the row layers' gradients are gathered, and the column layers' inputs are gathered again."""
    config = SMALL()
    payload = 4 * 2 * config.sequence * config.hidden
    half = ring_all_gather_bytes(ranks, payload)
    for (forward, backward, finish), (sent, sent_back, _) in shardlab.run(
        bill_of_a_block, config, True, ranks=ranks, timeout=60
    ):
        assert forward == [("all_gather", payload), ("reduce_scatter", payload)] * 2
        assert backward == [("all_gather", payload), ("all_gather", payload), ("reduce_scatter", payload)] * 2
        assert finish == [("all_reduce", 4 * 6 * config.hidden)]  # two norms, and the biases of two row layers
        assert sent == 2 * ring_all_reduce_bytes(ranks, payload) and sent_back == 6 * half


def messages_of_a_model(sequence_parallel):
    config = SMALL(vocabulary=13)
    model = apply_plan(
        new_model(config, torch.float32), gpt_plan(config, sequence_parallel=sequence_parallel), group=None
    )
    tokens, targets = batch(config, 0)
    with meter.record() as bill:
        logits = model(tokens)
        before = len(bill.events)
        vocabulary_parallel_loss(logits, targets, vocabulary=13, group=None).backward()
    return [event.payload_bytes for event in bill.events[before : before + 2]], bill.kinds[before : before + 3]


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_loss_exchanges_three_numbers_per_token(ranks, sequence_parallel):
    """The largest logit, the sum of exponentials and the target's logit. The head's backward follows."""
    tokens = 2 * 8
    head = "all_gather" if sequence_parallel else "all_reduce"
    for payloads, kinds in shardlab.run(messages_of_a_model, sequence_parallel, ranks=ranks, timeout=60):
        assert payloads == [4 * tokens, 2 * 4 * tokens]
        assert kinds == ["all_reduce", "all_reduce", head]


def without_summing():
    """How wrong the partial gradients of a sequence-parallel model are if they are not summed."""
    config = SMALL(kv_heads=1, tied=False)
    whole, part = new_model(config, torch.float64), new_model(config, torch.float64)
    apply_plan(part, gpt_plan(config, sequence_parallel=True), group=None)
    tokens, targets = batch(config, 0)
    next_token_loss(whole(tokens), targets).backward()
    vocabulary_parallel_loss(part(tokens), targets, vocabulary=config.vocabulary, group=None).backward()
    due = parted({n: p.grad for n, p in whole.named_parameters()}, cuts_of(part), rank=dist.get_rank(), size=2)
    wrong = [n for n, p in part.named_parameters() if not torch.allclose(p.grad, due[n], rtol=1e-9, atol=1e-12)]
    sum_partial_gradients(part, group=None)
    return wrong, [n for n, p in part.named_parameters() if not torch.allclose(p.grad, due[n], rtol=1e-9, atol=1e-12)]


def test_only_norms_row_biases_positions_and_shared_heads_are_partial():
    layer = ["norm_1.weight", "norm_1.bias", "norm_2.weight", "norm_2.bias"]
    layer += ["attention.qkv.weight", "attention.qkv.bias", "attention.out.bias", "down.bias"]
    due = {f"blocks.{number}.{name}" for number in range(2) for name in layer}
    for wrong, after in shardlab.run(without_summing, ranks=2, timeout=60):
        assert set(wrong) == due | {"position.weight", "norm.weight", "norm.bias"} and after == []


def refusals():
    told = []
    tied = GPT(SMALL())
    for make in (
        lambda: apply_plan(Block(SMALL()), {"attention": Heads()}, group=None),
        lambda: apply_plan(Block(SMALL(hidden=36, heads=12, kv_heads=4)), {"attention": Heads()}, group=None),
        lambda: apply_plan(Block(SMALL()), {"attention": Heads(), "attention.out": Row()}, group=None),
        lambda: apply_plan(Block(SMALL()), {"up": Column(), "u*": Column()}, group=None),
        lambda: apply_plan(Block(SMALL()), {"gate": Column()}, group=None),
        lambda: apply_plan(tied, {"token": Vocabulary()}, group=None),
        lambda: apply_plan(Block(SMALL(layers=dist.get_rank() + 1, hidden=24)), {"up": Column()}, group=None),
        lambda: apply_plan(Block(SMALL(hidden=8 * (dist.get_rank() + 1))), {"up": Column()}, group=None),
        lambda: apply_plan(Block(SMALL()), {"up": Column(sequence=dist.get_rank() == 2)}, group=None),
        lambda: apply_plan(Block(SMALL()), {"up": Column()}, group=None, seed=dist.get_rank()),
        lambda: apply_plan(Block(SMALL()).to([torch.float32, torch.bfloat16][dist.get_rank() % 2]), {}, group=None),
    ):
        try:
            make()
        except ValueError as error:
            told.append(str(error))
        else:
            told.append("")
    return told


def test_what_cannot_be_split_ends_in_a_sentence_on_every_rank():
    first, *others = shardlab.run(refusals, ranks=3, timeout=60)
    assert all(other == first for other in others)
    assert first[0] == "8 heads cannot be split over 3 ranks: use a tensor-parallel size among [1, 2, 4, 8]"
    assert first[1].startswith("12 heads and 4 key-value heads cannot be split over 3 ranks")
    assert first[1].endswith("[1, 2, 4, 12]")
    assert first[2].startswith("attention.out is inside attention, which is split as Heads")
    assert first[3].startswith("up is split both as Column") and "match it with one pattern" in first[3]
    assert first[4].startswith("no module is called 'gate': use paths among attention")
    assert first[5] == "token.weight and head.weight are one parameter: split both in the same way, or neither"
    assert first[6] == ""  # the number of layers does not affect a block
    assert first[7].startswith("rank 1 has a different model or plan from rank 0: norm_1.weight [16]")
    assert first[8].startswith("rank 2 has a different model or plan from rank 0: up: Column(")
    assert first[9].startswith("rank 1 has a different model or plan from rank 0: seed 1, but rank 0 has seed 0")
    assert "torch.bfloat16, but rank 0 has norm_1.weight [16] torch.float32" in first[10]


def bad_inputs(sequence_parallel):
    config = SMALL(vocabulary=13)
    plan = gpt_plan(config, sequence_parallel=sequence_parallel)
    model = apply_plan(new_model(config, torch.float32), plan, group=None)
    tokens, targets = batch(config, 0)
    logits, told = model(tokens), []
    calls = [
        lambda: model(tokens + 5),
        lambda: vocabulary_parallel_loss(logits, targets - 3, vocabulary=13, group=None),
        lambda: vocabulary_parallel_loss(logits[:, :, :3], targets, vocabulary=13, group=None),
    ]
    if sequence_parallel:
        calls += [lambda: model(tokens[:, :1]), lambda: model(tokens[:, :5])]
    with meter.record() as bill:
        for call in calls:
            with pytest.raises(ValueError, match=r"use|its own") as caught:
                call()
            told.append(str(caught.value))
    return told, bill.kinds


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["TP", "SP"])
def test_bad_tokens_targets_and_lengths_are_refused_before_sending(sequence_parallel):
    (told, kinds), other = shardlab.run(bad_inputs, sequence_parallel, ranks=2, timeout=60)
    assert other == (told, kinds) and kinds == []
    outside, label, logits, *lengths = told
    assert outside.startswith("token 1") and "is outside the vocabulary of 13: use 0 to 12" in outside
    assert label.startswith("target -") and "each of 2 ranks its own 7 of 13 columns" in logits
    if sequence_parallel:
        short, odd = lengths
        assert short == "a sequence of 1 cannot be split over 2 ranks: use 2, or a tensor-parallel size among [1]"
        assert odd.startswith("a sequence of 5 cannot be split over 2 ranks: use 4 or 6")


def batches_of_other_lengths():
    block = apply_plan(Block(SMALL()), block_plan(SMALL()), group=None)
    return block(torch.zeros(2, 8 - dist.get_rank(), 16)).shape


def test_unexpected_lengths_end_in_a_report_not_in_a_wait():
    with pytest.raises(shardlab.RanksFailed) as caught:
        shardlab.run(batches_of_other_lengths, ranks=2, timeout=20, transport="gloo")
    told = str(caught.value)
    assert "[2, 8, 16]" in told and "[2, 7, 16]" in told, told
