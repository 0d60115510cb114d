"""Gradient compression (梯度压缩): send fewer bytes per gradient, and send what was left out later.

A codec turns n numbers into a message of bytes and back. `mean_of_messages` turns a codec into a `reduce` for
`DataParallel`. For the size of each message see `shardlab.costs.compression`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.costs.compression import SCALE_BYTES, kept_elements, packed_bytes, qsgd_bits
from shardlab.data_parallel.buckets import Bucket
from shardlab.data_parallel.ddp import Reduce

NAN_FILLED = 255  # no codec writes a message of only this byte: as an index it is -1, as a scale it is NaN


class Codec(Protocol):
    """A way to write a flat tensor of n numbers as bytes. The message length depends only on n.

    `encode` raises ValueError for NaN and infinity, which a message could not represent.
    """

    def encode(self, flat: Tensor) -> Tensor:
        """A uint8 message of n numbers."""
        ...

    def decode(self, message: Tensor, num_elements: int) -> Tensor:
        """The n numbers that the message encodes, as float32."""
        ...


@dataclass(frozen=True)
class TopK:
    """The largest numbers and their indices, with zeros for all others. Biased, so it needs error feedback."""

    share: float

    def encode(self, flat: Tensor) -> Tensor:
        return encode_top_k(flat, kept_elements(flat.numel(), self.share))

    def decode(self, message: Tensor, num_elements: int) -> Tensor:
        places, values = message.chunk(2)
        zeros = torch.zeros(num_elements, device=message.device)
        return zeros.index_copy(0, places.view(torch.int32).long(), values.view(torch.float32))


def encode_top_k(flat: Tensor, num_kept: int) -> Tensor:
    """A message of the `num_kept` numbers of largest magnitude: int32 indices, then float32 values.

    Raises ValueError if there are fewer numbers than `num_kept`.
    """
    if not 1 <= num_kept <= flat.numel():
        raise ValueError(f"cannot keep {num_kept} of {flat.numel()} numbers: use 1 to {flat.numel()}")
    flat = _finite(flat)
    places = flat.abs().topk(num_kept).indices
    return torch.cat([_bytes(places.to(torch.int32)), _bytes(flat[places])])


@dataclass(frozen=True)
class OneBit:
    """The sign of each number, and the mean of each sign (Seide et al. 2014). Biased, so it needs error feedback."""

    def encode(self, flat: Tensor) -> Tensor:
        flat = _finite(flat)
        is_up = flat >= 0
        means = [flat[part].mean() if part.any() else flat.new_zeros(()) for part in (~is_up, is_up)]
        return torch.cat([_bytes(torch.stack(means)), pack(is_up.to(torch.uint8), 1)])

    def decode(self, message: Tensor, num_elements: int) -> Tensor:
        means = message[: 2 * SCALE_BYTES].clone().view(torch.float32)
        return means[unpack(message[2 * SCALE_BYTES :], 1, num_elements).long()]


@dataclass(frozen=True)
class TernGrad:
    """-1, 0 or 1 times the largest magnitude, drawn at random so that the mean is exact (1705.07878, equation 3)."""

    def encode(self, flat: Tensor) -> Tensor:
        flat = _finite(flat)
        scale = flat.abs().max()
        is_sent = torch.rand_like(flat) * scale < flat.abs()
        codes = (flat.sign() * is_sent + 1).to(torch.uint8)
        return torch.cat([_bytes(scale[None]), pack(codes, 2)])

    def decode(self, message: Tensor, num_elements: int) -> Tensor:
        scale = message[:SCALE_BYTES].clone().view(torch.float32)
        return scale * (unpack(message[SCALE_BYTES:], 2, num_elements).float() - 1)


@dataclass(frozen=True)
class QSGD:
    """Each number as a fraction of its block's norm, randomly rounded up or down to a level so that the mean is exact.

    levels: s. block: how many numbers share a norm, the paper's bucket (1610.02132, sections 3.1 and 4).
    """

    levels: int = 7
    block: int = 64

    def encode(self, flat: Tensor) -> Tensor:
        blocks = torch.nn.functional.pad(_finite(flat), (0, -flat.numel() % self.block)).view(-1, self.block)
        norms = blocks.norm(dim=1, keepdim=True)
        height = (blocks.abs() / norms.clamp(min=torch.finfo().tiny)).clamp(max=1) * self.levels
        level = (height + torch.rand_like(height)).floor().clamp(max=self.levels)
        codes = (2 * level + (blocks < 0)).to(torch.uint8).flatten()[: flat.numel()]
        return torch.cat([_bytes(norms.flatten()), pack(codes, qsgd_bits(self.levels))])

    def decode(self, message: Tensor, num_elements: int) -> Tensor:
        split = SCALE_BYTES * -(-num_elements // self.block)
        norms = message[:split].clone().view(torch.float32).repeat_interleave(self.block)[:num_elements]
        codes = unpack(message[split:], qsgd_bits(self.levels), num_elements)
        return norms * (codes // 2) / self.levels * (1 - 2 * (codes % 2).float())


def mean_of_messages(codec: Codec, *, error_feedback: bool = False) -> Reduce:
    """A `reduce` for `DataParallel`: all-gather the messages of all ranks, decode and average.

    A gradient with NaN or infinity is sent as NAN_FILLED, and the mean is NaN on every rank. `DataParallel` then
    reports which rank it came from. error_feedback: what a message left out is added to the same bucket's next gradient
    (1809.07599, algorithm 1). Bytes sent by a rank: costs.compression.sent_bytes.
    """
    left_out: dict[Bucket, Tensor] = {}

    def reduce(bucket: Bucket, group: dist.ProcessGroup | None) -> Callable[[], None]:
        flat = bucket.flat
        gradient = flat.float() + left_out.get(bucket, 0)
        if gradient.isfinite().all():
            message = codec.encode(gradient)
            if error_feedback:
                left_out[bucket] = gradient - codec.decode(message, flat.numel())
        else:
            message = torch.full_like(codec.encode(torch.zeros_like(gradient)), NAN_FILLED)
        messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
        work = dist.all_gather(messages, message, group=group, async_op=True)

        def wait() -> None:
            assert work is not None
            work.wait()
            if any((one[:SCALE_BYTES] == NAN_FILLED).all() for one in messages):
                flat.fill_(torch.nan)
            else:
                flat.copy_(torch.stack([codec.decode(one, flat.numel()) for one in messages]).mean(0))

        return wait

    return reduce


def pack(codes: Tensor, bits: int) -> Tensor:
    """Pack integers below 2**bits (uint8) end to end, eight bits per byte."""
    stream = (codes[:, None] >> _shifts(bits, codes) & 1).flatten()
    stream = torch.nn.functional.pad(stream, (0, -stream.numel() % 8)).view(-1, 8)
    return (stream << _shifts(8, codes)).sum(1, dtype=torch.uint8)


def unpack(packed: Tensor, bits: int, num_elements: int) -> Tensor:
    """The codes that `pack` packed, as uint8. Raises ValueError if the number of bytes does not match n codes."""
    if packed.numel() != packed_bytes(num_elements, bits):
        due = packed_bytes(num_elements, bits)
        raise ValueError(f"{packed.numel()} bytes cannot hold {num_elements} codes of {bits} bits: give {due} bytes")
    stream = (packed[:, None] >> _shifts(8, packed) & 1).flatten()[: num_elements * bits]
    return (stream.view(-1, bits) << _shifts(bits, packed)).sum(1, dtype=torch.uint8)


def _shifts(bits: int, like: Tensor) -> Tensor:
    return torch.arange(bits, dtype=torch.uint8, device=like.device)


def _finite(flat: Tensor) -> Tensor:
    if not flat.isfinite().all():
        raise ValueError("the gradient has NaN or infinite numbers: check the loss before you compress")
    return flat.float()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.uint8)
