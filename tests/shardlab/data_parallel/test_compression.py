"""Compressed gradients: bytes match the formulas, left-out parts are sent later, random rounding is unbiased."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import compression as costs
from shardlab.costs import traffic
from shardlab.data_parallel.compression import (
    QSGD,
    OneBit,
    TernGrad,
    TopK,
    encode_top_k,
    mean_of_messages,
    pack,
    unpack,
)
from shardlab.data_parallel.ddp import DataParallel
from torch import nn

from tests.shardlab.data_parallel import twin

CODECS = {"top-k": TopK(0.1), "1-bit": OneBit(), "terngrad": TernGrad(), "qsgd": QSGD(7, 16)}
BIASED = ("top-k", "1-bit")


def message_bytes(name, n):
    return {
        "top-k": lambda: costs.top_k_bytes(costs.kept_elements(n, 0.1)),
        "1-bit": lambda: costs.one_bit_bytes(n),
        "terngrad": lambda: costs.terngrad_bytes(n),
        "qsgd": lambda: costs.qsgd_bytes(n, 7, 16),
    }[name]()


def one_step(codec):
    torch.manual_seed(dist.get_rank())
    model = DataParallel(nn.Linear(17, 3), reduce=mean_of_messages(codec, error_feedback=True))
    with meter.record() as bill:
        model(torch.randn(4, 17)).sum().backward()
    (event,) = bill.events
    return event.kind, event.dtype, event.sent_bytes, [p.grad for p in model.parameters()]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", CODECS)
def test_bytes_on_the_wire_are_the_formulas(name, ranks):
    came = shardlab.run(one_step, CODECS[name], ranks=ranks)
    for kind, dtype, sent, gradients in came:
        assert (kind, dtype) == ("all_gather", "uint8")
        assert sent == costs.sent_bytes(ranks, message_bytes(name, 17 * 3 + 3))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(gradients, came[0][3], strict=True))


def sums_over_steps(codec):
    torch.manual_seed(dist.get_rank())
    model = nn.Linear(30, 1, bias=False)
    wrapped = DataParallel(model, reduce=mean_of_messages(codec, error_feedback=True))
    due, got = torch.zeros(30), torch.zeros(30)
    for step in range(40):
        model.zero_grad()
        rows = torch.randn(1, 30) * (step < 39) + 1.0
        due += rows[0]
        wrapped(rows).sum().backward()
        assert model.weight.grad is not None
        got += model.weight.grad[0]
    dist.all_reduce(due)
    return due / dist.get_world_size(), got


@pytest.mark.parametrize("name", BIASED)
def test_with_error_feedback_the_sum_over_steps_catches_up(name):
    for due, got in shardlab.run(sums_over_steps, CODECS[name], ranks=2):
        assert (got - due).norm() < 0.5 * due.norm()  # the part left out does not grow with the steps


def test_what_was_left_out_and_what_was_sent_make_the_whole():
    flat = torch.randn(101, generator=torch.Generator().manual_seed(0))
    for name in BIASED:
        codec, sent, left_out = CODECS[name], torch.zeros(101), torch.zeros(101)
        for _ in range(20):
            gradient = flat + left_out
            said = codec.decode(codec.encode(gradient), 101)
            sent, left_out = sent + said, gradient - said
        assert torch.allclose(sent + left_out, 20 * flat, atol=1e-4)


@pytest.mark.parametrize("name", ["terngrad", "qsgd"])
def test_draws_are_right_in_the_mean(name):
    torch.manual_seed(0)
    codec, flat = CODECS[name], torch.linspace(-1, 1, 40)
    total = sum(codec.decode(codec.encode(flat), 40) for _ in range(2000)) / 2000
    assert (total - flat).abs().max() < 0.06


def losses(codec, feedback):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    reduce = None if codec is None else mean_of_messages(codec, error_feedback=feedback)
    model = DataParallel(twin.new_model().float(), bucket_bytes=2000, reduce=reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    tokens, targets = (twin.own_part(t, rank, size) for t in twin.batch(0, size))
    seen = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = twin.loss_of(model, tokens, targets)
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    dist.all_reduce(total := torch.stack(seen))
    return (total / size).tolist()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.slow
def test_training_converges(name):
    plain = shardlab.run(losses, None, False, ranks=2, timeout=60)[0]
    compressed = shardlab.run(losses, CODECS[name], name in BIASED, ranks=2, timeout=60)[0]
    assert plain[-1] < 0.3 * plain[0]
    assert compressed[-1] < 0.5 * compressed[0]


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("num", [1, 7, 8, 19])
def test_packing_loses_nothing(bits, num):
    codes = torch.randint(2**bits, (num,), dtype=torch.uint8)
    packed = pack(codes, bits)
    assert packed.numel() == costs.packed_bytes(num, bits)
    assert torch.equal(unpack(packed, bits, num), codes)
    with pytest.raises(ValueError, match="bits: give"):
        unpack(packed, bits, num + 8)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("flat", [torch.zeros(5), torch.full((3,), -2.0), torch.tensor([1e-30, 0.0])])
def test_gradients_without_a_range_survive(name, flat):
    codec = CODECS[name]
    said = codec.decode(codec.encode(flat), flat.numel())
    assert said.isfinite().all() and said.shape == flat.shape


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused(name, bad):
    with pytest.raises(ValueError, match="NaN or infinite"):
        CODECS[name].encode(torch.tensor([1.0, bad, 2.0]))


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="use 1 to 3"):
        encode_top_k(torch.ones(3), 4)
    with pytest.raises(ValueError, match="more than 0 and at most 1"):
        TopK(0.0).encode(torch.ones(3))
    with pytest.raises(ValueError, match="use 1 to 127"):
        QSGD(levels=200).encode(torch.ones(3))


def test_messages_pay_up_to_2s_over_m_ranks():
    num_bytes, message = 4e6, costs.one_bit_bytes(10**6)
    ranks = costs.break_even_ranks(num_bytes, message)
    for num in (int(ranks), int(ranks) + 1):
        pays = costs.sent_bytes(num, message) <= traffic.ring_all_reduce_bytes(num, num_bytes)
        assert pays == (num <= ranks)
