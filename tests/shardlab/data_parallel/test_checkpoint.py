"""Checkpoints, options, and gradients that are kept."""

import os
import signal
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.data_parallel import checkpoint
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import nn

from tests.shardlab.data_parallel import twin

# ---- Saved on N ranks and loaded on M, bits are equal. A save that dies keeps the previous one. Mismatches are
# refused.


def engine(stage="zero3", **options):
    model = twin.new_model(**options)
    if stage == "zero3":
        return Zero3(model, torch.optim.AdamW, units=list(model.blocks), lr=0.05)
    return Zero2(model, torch.optim.AdamW, bucket_bytes=400, lr=0.05)


def train(zero, steps, num_parts=4):
    """Train on one rank's share of a batch that does not depend on the number of ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in steps:
        zero.zero_grad()
        twin.loss_of(zero.module, *(twin.own_part(t, rank, size) for t in twin.batch(step, num_parts))).backward()
        zero.step()


def weights_and_states(zero):
    """Whole weights by name, and each vector's whole masters and moments without padding."""
    found = zero.full_parameters()
    if not found:
        found = {name: parameter.detach().clone() for name, parameter in zero.module.named_parameters()}
    for number, vector in enumerate(zero.vectors):
        for name, value in {"master": vector.master.detach(), **zero.local.state[vector.master]}.items():
            if value.dim():
                whole = torch.empty(dist.get_world_size() * vector.shard_elements, dtype=value.dtype)
                dist.all_gather_single(whole, value)
                value = whole[: vector.num_elements]  # noqa: PLW2901
            found[f"{number}.{name}"] = value
    return found


def save_and_go_on(stage, folder):
    zero = engine(stage)
    train(zero, range(3))
    checkpoint.save(zero, folder, step=3)
    saved = weights_and_states(zero)
    train(zero, range(3, 6))
    return saved, weights_and_states(zero)


def load_and_go_on(stage, folder):
    zero = engine(stage)
    assert checkpoint.load(zero, checkpoint.latest(folder)) == 3
    loaded = weights_and_states(zero)
    train(zero, range(3, 6))
    return loaded, weights_and_states(zero)


def same_bits(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_training_goes_on_to_the_bit(stage, tmp_path):
    (saved, after), _ = shardlab.run(save_and_go_on, stage, str(tmp_path), ranks=2, timeout=60)
    for loaded, after_loading in shardlab.run(load_and_go_on, stage, str(tmp_path), ranks=2, timeout=60):
        assert same_bits(saved, loaded)
        assert same_bits(after, after_loading)


@pytest.mark.parametrize(("save_on", "load_on"), [(4, 2), (2, 3), (1, 4)])
def test_other_numbers_of_ranks_load_the_same_bits(save_on, load_on, tmp_path):
    saved, _ = shardlab.run(save_and_go_on, "zero3", str(tmp_path), ranks=save_on, timeout=60)[0]
    for loaded, _ in shardlab.run(load_and_go_on, "zero3", str(tmp_path), ranks=load_on, timeout=60):
        assert same_bits(saved, loaded)


def die_while_saving(folder):
    zero = engine()
    train(zero, range(2))
    checkpoint.save(zero, folder, step=2)
    train(zero, range(2, 4))
    if dist.get_rank() == 1:
        write = os.fsync
        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL) or write(file)
    checkpoint.save(zero, folder, step=4)


def load_latest(folder):
    zero = engine()
    return checkpoint.load(zero, checkpoint.latest(folder))


def test_a_rank_killed_in_the_middle_leaves_the_checkpoint_before(tmp_path):
    with pytest.raises(shardlab.RanksFailed):
        shardlab.run(die_while_saving, str(tmp_path), ranks=2, timeout=30)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["step-00000002"]
    assert shardlab.run(load_latest, str(tmp_path), ranks=2, timeout=60) == [2, 2]


def try_to_load(folder, options):
    zero = engine(**options)
    before = weights_and_states(zero)
    try:
        checkpoint.load(zero, checkpoint.latest(folder))
    except ValueError as error:
        return str(error), same_bits(before, weights_and_states(zero))
    return "loaded", False


@pytest.mark.parametrize(
    ("harm", "options", "words"),
    [
        (None, {"with_unused": True}, "belongs to another model"),
        (None, {"stage": "zero2"}, "another model or layout"),
        ("short", {}, "truncated"),
        ("lost", {}, "there is no complete checkpoint"),
        ("garbled", {}, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_on_every_rank_and_changes_nothing(harm, options, words, tmp_path):
    shardlab.run(save_and_go_on, "zero3", str(tmp_path), ranks=2, timeout=60)
    folder = Path(tmp_path, "step-00000003")
    data = next(folder.glob("*.distcp"))
    if harm == "short":
        data.write_bytes(data.read_bytes()[:-100])
    if harm == "lost":
        (folder / checkpoint.CONTENTS).unlink()
    if harm == "garbled":
        (folder / checkpoint.CONTENTS).write_text("{")
    for sentence, untouched in shardlab.run(try_to_load, str(tmp_path), options, ranks=2, timeout=60):
        assert words in sentence
        assert untouched


# ---- Offload, prefetch, resharding and fp32 main gradients on real ranks: the values, and the bytes. -----------------

ENGINES = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}
ADAMW = {"lr": 0.05, "weight_decay": 0.1}
OPTIONS = [
    ("zero1", {"offload": True}),
    ("zero2", {"offload": True}),
    ("zero3", {"offload": True}),
    ("zero3", {"prefetch": 0}),
    ("zero3", {"prefetch": 2}),
    ("zero3", {"prefetch": 9}),
    ("zero3", {"reshard_after_forward": False}),
    ("zero3", {"reshard_after_forward": False, "prefetch": 0, "offload": True}),
    ("zero3", {"gradient_dtype": torch.float64}),
]


def train_options(name, options):
    """Weights after twenty steps, and the bytes sent by the last step."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model = twin.new_model()
    more = {"units": list(model.blocks)} if name == "zero3" else {}
    zero = ENGINES[name](model, torch.optim.AdamW, **more, **options, **ADAMW)
    for step in range(twin.STEPS):
        zero.zero_grad()
        with meter.record() as bill:
            twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
            zero.step()
    weights = zero.full_parameters() if name == "zero3" else {n: p.detach() for n, p in model.named_parameters()}
    return weights, bill.sent_bytes, [8 * sum(vector.lengths) for vector in zero.vectors], zero.held().optimizer_state


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=lambda value: str(value).replace("torch.", ""))
@pytest.mark.slow
def test_values_are_those_of_one_process_and_bytes_those_of_the_formula(name, options, ranks):
    alone, _ = twin.trained_alone(ranks, **ADAMW)
    for weights, sent, vectors, state in shardlab.run(train_options, name, options, ranks=ranks, timeout=60):
        assert twin.largest_difference(weights, alone) < 1e-12
        stage = int(name[-1]) if options.get("reshard_after_forward", True) else 2
        due = traffic.zero_bytes(ranks, sum(vectors), stage)
        if stage == 3:  # parameters outside the units are gathered once
            due -= traffic.ring_all_gather_bytes(ranks, vectors[-1])
        assert sent == due
        assert state == sum(2 * vector // ranks + 4 for vector in vectors)


def summed(gradient_dtype, microbatches):
    """The slices' sum over the microbatches of a bf16 model, and each microbatch's own slices."""
    model = twin.new_model().bfloat16()
    zero = Zero3(model, torch.optim.SGD, units=list(model.blocks), gradient_dtype=gradient_dtype, lr=0.1)
    alone = []
    for number in range(microbatches):
        zero.zero_grad()
        twin.loss_of(model, *twin.batch(number, 1)).backward()
        alone.append([shard.clone() for shard in zero.gradients.shards()])
    zero.zero_grad()
    for number in range(microbatches):
        twin.loss_of(model, *twin.batch(number, 1)).backward()
    return zero.gradients.shards(), alone, zero.held().gradients, sum(vector.shard_elements for vector in zero.vectors)


@pytest.mark.parametrize(("gradient_dtype", "num_bytes"), [(torch.float32, 4), (None, 2)])
def test_main_gradients_of_fp32_lose_nothing_of_a_long_sum(gradient_dtype, num_bytes):
    for sums, alone, held, elements in shardlab.run(summed, gradient_dtype, 16, ranks=2, timeout=60):
        assert held == num_bytes * elements
        exact = [sum(shard.double() for shard in shards) for shards in zip(*alone, strict=True)]
        off = max((total.double() - due).abs().max().item() for total, due in zip(sums, exact, strict=True))
        assert (off < 1e-6) == (gradient_dtype is torch.float32)  # sixteen sums in bf16 round at 2**-9


# ---- If the last backward does not use a parameter, DDP keeps its gradient from an earlier backward, on any rank. ----

X = torch.ones(3, 2)


class Three(nn.Module):
    """Uses one of three layers. The last is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(2, 1) for _ in range(3))

    def forward(self, x, which):
        return self.layers[which](x).sum()


def wrap(kind, model):
    if kind == "torch":
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    return DataParallel(model, unused_parameters=True)


def gradients(model):
    return [None if one.weight.grad is None else one.weight.grad.tolist() for one in model.layers]


def used_while_not_synchronized(kind, who):
    """Some ranks use the first layer in an unsynchronized backward. The last backward uses only the second layer."""
    model = Three()
    wrapped = wrap(kind, model)
    with wrapped.no_sync():
        wrapped(X, 0 if dist.get_rank() in who else 1).backward()
    wrapped(X, 1).backward()
    return gradients(model)


@pytest.mark.parametrize("who", [(0, 1), (1,)], ids=["all-ranks", "one-rank"])
def test_what_was_used_without_synchronization_is_averaged_as_torch_does(who):
    ours, torchs = (shardlab.run(used_while_not_synchronized, kind, who, ranks=2) for kind in ("ours", "torch"))
    assert ours == torchs
    share = 3.0 * len(who) / 2
    assert ours[0] == [[[share, share]], [[6.0 - share, 6.0 - share]], None] == ours[1]


def used_in_turn(kind):
    """Two synchronized backwards, one layer each, then the first again."""
    model = Three()
    wrapped = wrap(kind, model)
    for which in (0, 1, 0):
        wrapped(X, which).backward()
    kept = gradients(model)
    model.zero_grad()
    wrapped(X, 1).backward()
    return kept, gradients(model)


def test_gradients_of_synchronized_backwards_add_up():
    ours, torchs = (shardlab.run(used_in_turn, kind, ranks=2) for kind in ("ours", "torch"))
    assert ours == torchs
    assert ours[0] == ([[[6.0, 6.0]], [[3.0, 3.0]], None], [None, [[3.0, 3.0]], None])
