"""Offload, prefetch, resharding and fp32 main gradients on real ranks: the values, and the bytes."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3

from tests.shardlab.data_parallel import twin

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


def train(name, options):
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
    for weights, sent, vectors, state in shardlab.run(train, name, options, ranks=ranks, timeout=60):
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
