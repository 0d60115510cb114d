"""The small GPT with split sequences compared with one process: losses and weights after some steps."""

from itertools import pairwise

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.balance import contiguous, striped, zigzag
from shardlab.context_parallel.gathered import Gathered
from shardlab.context_parallel.mask import CAUSAL, Mask
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.training import (
    IGNORED,
    next_tokens,
    split_attention,
    split_batch,
    sum_gradients,
    valid_token_loss,
)
from shardlab.context_parallel.ulysses import Ulysses
from shardlab.mesh.axes import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.recomputation import recompute
from torch.nn import functional

CONFIG = {"layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "sequence": 32, "vocabulary": 50}
BATCH, STEPS = 4, 3
DOCUMENTS = Mask(documents=((5, 20, 7), (32,), (1, 31), (16, 16)))


def new_model(rope):
    torch.manual_seed(0)
    return GPT(GPTConfig(**CONFIG, rope=rope))


def batch(step, mask):
    """Tokens and labels of the whole batch. Most labels of its last half are ignored, so that ranks differ."""
    tokens = torch.randint(50, (BATCH, 32), generator=torch.Generator().manual_seed(step))
    labels = next_tokens(tokens, mask)
    labels[:, 17:] = IGNORED
    return tokens, labels


def trained_here(rope, mask, documents_attended):
    """Losses and weights of one process, with each document separate and positions token by token."""
    model, losses = new_model(rope), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        tokens, labels = batch(step, mask)
        pieces = [(row, piece) for row in range(BATCH) for piece in documents_attended(row)]
        summed = sum(
            functional.cross_entropy(
                model(tokens[row : row + 1, piece])[0], labels[row, piece], ignore_index=IGNORED, reduction="sum"
            )
            for row, piece in pieces
        )
        loss = summed / (labels != IGNORED).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [one.detach() for one in model.parameters()]


def pieces_of(mask):
    def of(row):
        ends = torch.tensor([0, *(mask.documents[row] if mask.documents else (32,))]).cumsum(0).tolist()
        return [slice(begin, end) for begin, end in pairwise(ends)]

    return of


def worst(make, method, rope, mask, dp=1, recomputed=None):
    """The largest differences of losses and of weights from one process, with cp = the rest of the world."""
    torch.manual_seed(0)
    cp = dist.get_world_size() // dp
    groups = create_process_groups(Mesh(cp=cp, dp=dp), more=(("dp", "cp"),))
    layout, rank, replica = make(32, cp), dist.get_rank(groups.of("cp")), dist.get_rank(groups.of("dp"))
    rows = slice(replica * BATCH // dp, (replica + 1) * BATCH // dp)
    mine = Mask(documents=mask.documents[rows]) if mask.documents else mask

    model = split_attention(new_model(rope), layout=layout, group=groups.of("cp"), method=method, mask=mine)
    if recomputed:
        recompute(model, recomputed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for step in range(STEPS):
        tokens, labels = batch(step, mask)
        part = split_batch(tokens[rows], labels[rows], layout=layout, rank=rank, mask=mine)
        loss = valid_token_loss(model(part.tokens, part.positions), part.labels, group=groups.of("dp", "cp"))
        optimizer.zero_grad()
        loss.backward()
        sum_gradients(model, group=groups.of("dp", "cp"))
        optimizer.step()
        losses.append(loss.item())

    due_losses, due = trained_here(rope, mask, pieces_of(mask))
    of_losses = max(abs(one - other) for one, other in zip(losses, due_losses, strict=True))
    weights = max((one - other).abs().max().item() for one, other in zip(model.parameters(), due, strict=True))
    return of_losses, weights


def all_ways(dp):
    cp = dist.get_world_size() // dp
    found = {
        ("zig-zag ring", rope, name): worst(zigzag, Ring(), rope, mask, dp)
        for rope in (True, False)
        for name, mask in (("causal", CAUSAL), ("documents", DOCUMENTS))
    }
    found["striped, gathered"] = worst(striped, Gathered(), True, DOCUMENTS, dp)
    found["contiguous, Ulysses"] = worst(contiguous, Ulysses(), True, DOCUMENTS, dp)
    found["ring, recomputed"] = worst(zigzag, Ring(), True, CAUSAL, dp, recomputed="blocks.*")
    assert cp > 1
    return found


@pytest.mark.parametrize(("ranks", "dp"), [(2, 1), (4, 1), (4, 2)])
def test_a_model_trains_as_on_one_process(ranks, dp):
    for by_way in shardlab.run(all_ways, dp, ranks=ranks, timeout=240):
        assert len(by_way) == 7
        assert {way: far for way, far in by_way.items() if not (far[0] < 1e-5 and far[1] < 1e-5)} == {}


def faulty(fault):
    """The same with one known mistake."""
    if fault == "positions":
        return worst_with(lambda part: part._replace(positions=torch.arange(len(part.positions))))
    if fault == "labels":
        return worst_with(lambda part: part._replace(labels=next_tokens(part.tokens)))
    return worst_with(lambda part: part)


def worst_with(change):
    """The first loss's difference from one process, with a part of the batch changed by hand and strong attention."""
    layout, rank = zigzag(32, dist.get_world_size()), dist.get_rank()
    model = new_model(True)
    for block in model.blocks:
        block.attention.qkv.weight.data.mul_(30)
        block.attention.out.weight.data.mul_(30)
    tokens, labels = batch(0, CAUSAL)
    due = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    split_attention(model, layout=layout, group=None)
    part = change(split_batch(tokens, labels, layout=layout, rank=rank))
    return abs(valid_token_loss(model(part.tokens, part.positions), part.labels, group=None).item() - due.item())


def test_known_mistakes_are_seen():
    for fault in ("positions", "labels"):
        assert min(shardlab.run(faulty, fault, ranks=2, timeout=60)) > 1e-3
    assert max(shardlab.run(faulty, "none", ranks=2, timeout=60)) < 1e-5


def uneven():
    """The loss and its gradient if rank 0 has one valid token and the others three each."""
    rank, size = dist.get_rank(), dist.get_world_size()
    logits = torch.randn(size, 3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.ones(size, 3, dtype=torch.long)
    labels[0, 1:] = IGNORED
    due = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    (wanted,) = torch.autograd.grad(due, logits)
    mine = logits.detach()[rank : rank + 1].requires_grad_()
    loss = valid_token_loss(mine, labels[rank : rank + 1], group=None)
    (got,) = torch.autograd.grad(loss, mine)
    return (loss - due).abs().item(), (got - wanted[rank : rank + 1]).abs().max().item()


def test_every_valid_token_weighs_the_same():
    assert max(max(one) for one in shardlab.run(uneven, ranks=4, timeout=30)) < 1e-6


def no_labels():
    with pytest.raises(ValueError, match="at least one token"):
        valid_token_loss(torch.zeros(1, 2, 3), torch.full((1, 2), IGNORED), group=None)
    return True


def test_no_valid_token_at_all_is_refused_by_every_rank():
    assert shardlab.run(no_labels, ranks=2, timeout=30) == [True, True]


def test_labels_end_with_their_documents():
    tokens = torch.arange(8).unsqueeze(0)
    assert next_tokens(tokens).tolist() == [[1, 2, 3, 4, 5, 6, 7, IGNORED]]
    assert next_tokens(tokens, Mask(documents=((3, 5),))).tolist() == [[1, 2, IGNORED, 4, 5, 6, 7, IGNORED]]
    part = split_batch(tokens, next_tokens(tokens), layout=zigzag(8, 2), rank=0)
    assert part.labels.tolist() == [[1, 2, 7, IGNORED]] and part.positions.tolist() == [0, 1, 6, 7]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one label per token"):
        split_batch(torch.zeros(1, 8), torch.zeros(1, 7), layout=zigzag(8, 2), rank=0)
    with pytest.raises(ValueError, match="8 tokens do not fit a layout of 16"):
        split_batch(torch.zeros(1, 8), torch.zeros(1, 8), layout=zigzag(16, 2), rank=0)
    with pytest.raises(ValueError, match="flash=True"):
        split_attention(GPT(GPTConfig(**CONFIG, dropout=0.1, flash=False)), layout=zigzag(32, 2), group=None)
    with pytest.raises(ValueError, match="no Attention"):
        split_attention(torch.nn.Linear(2, 2), layout=zigzag(32, 2), group=None)
