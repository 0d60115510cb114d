"""Compressed gradients, and ZeRO++."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import compression as costs
from shardlab.costs import traffic
from shardlab.costs.compression import BLOCK, plus_bytes, quantized_bytes
from shardlab.costs.traffic import zero_bytes
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
from shardlab.data_parallel.messages import dequantize, quantize
from shardlab.data_parallel.zero import Zero3, ZeroPlusPlus
from torch import nn

from tests.shardlab.data_parallel import twin

# ---- Compressed gradients: bytes match the formulas, left-out parts are sent later, random rounding is unbiased. -----

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


# ---- ZeRO++: bytes match the formula, weights and gradients are as close as eight bits allow, hpZ is exact. ----------


@pytest.mark.parametrize("num", [1, 255, 256, 1000])
def test_a_number_is_off_by_half_a_scale_at_most(num):
    values = torch.randn(num, generator=torch.Generator().manual_seed(num)) * torch.logspace(-3, 3, num)
    message = quantize(values)
    assert message.numel() == quantized_bytes(num)
    again = dequantize(message, num)
    for value, read in zip(values.split(BLOCK), again.split(BLOCK), strict=True):
        half_a_scale = value.abs().max() / 127 / 2
        assert ((read - value).abs() <= half_a_scale * 1.0001).all()


def test_zeros_stay_zeros_and_what_no_scale_can_hold_is_nan():
    assert not dequantize(quantize(torch.zeros(300)), 300).any()
    for bad in (float("nan"), float("inf"), -float("inf")):
        values = torch.ones(300)
        values[7] = bad
        read = dequantize(quantize(values), 300)
        assert read[:256].isnan().all() and torch.allclose(read[256:], values[256:])


def step_of(options, ranks_per_node):
    rank = dist.get_rank()
    if ranks_per_node is not None:
        nodes = [dist.new_group([2 * node, 2 * node + 1]) for node in range(2)]
        options = options | {"node": nodes[rank // 2]}
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(31, 32), nn.Linear(32, 40))
    zero = ZeroPlusPlus(model, torch.optim.SGD, units=list(model), lr=0.1, **options)
    sent = []
    for _ in range(3):
        with meter.record() as bill:
            model(torch.ones(1, 31)).sum().backward()
            zero.step()
            zero.zero_grad()
        sent.append(bill.sent_bytes)
    return sent


@pytest.mark.parametrize("ranks_per_node", [None, 2])
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_bytes_are_the_formula_s(weights, gradients, ranks_per_node):
    options = {"quantized_weights": weights, "quantized_gradients": gradients}
    due = sum(plus_bytes(4, size, 4, ranks_per_node=ranks_per_node, **options) for size in (32 * 32, 33 * 40))
    for sent in shardlab.run(step_of, options, ranks_per_node, ranks=4, timeout=60):
        assert sent == [due] * 3
    if not (weights or gradients or ranks_per_node):
        assert due == zero_bytes(4, 4 * (32 * 32 + 33 * 40), 3)


def train(engine, options, hierarchical):
    rank, size = dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group([2 * node, 2 * node + 1]) for node in range(2)] if hierarchical else []
    options = options | ({"node": nodes[rank // 2]} if hierarchical else {})
    model = twin.new_model()
    zero = engine(model, torch.optim.SGD, units=list(model.blocks), lr=0.1, **options)
    losses = []
    for step in range(twin.STEPS):
        zero.zero_grad()
        loss = twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size)))
        loss.backward()
        zero.step()
        losses.append(loss.item())
    return zero.full_parameters(), losses


@pytest.mark.slow
def test_a_secondary_shard_changes_no_bit():
    plain, _ = shardlab.run(train, Zero3, {}, False, ranks=4, timeout=60)[0]
    for weights, _ in shardlab.run(train, ZeroPlusPlus, {}, True, ranks=4, timeout=60):
        assert twin.largest_difference(weights, plain) == 0


@pytest.mark.parametrize("options", [{"quantized_weights": True}, {"quantized_gradients": True}])
@pytest.mark.slow
def test_eight_bits_train_nearly_as_well(options):
    plain, losses = shardlab.run(train, Zero3, {}, False, ranks=2, timeout=60)[0]
    weights, quantized_losses = shardlab.run(train, ZeroPlusPlus, options, False, ranks=2, timeout=60)[0]
    assert 0 < twin.largest_difference(weights, plain) < 0.05
    assert quantized_losses[-1] == pytest.approx(losses[-1], rel=0.02)
