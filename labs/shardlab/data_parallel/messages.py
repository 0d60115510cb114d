"""8-bit numbers with one scale per block: a quarter of the bytes of fp32, with a known error.

ZeRO++ (2306.10209), section 3.1: with one scale for a whole tensor, a single large number drowns out all others. One
scale per block of 256 avoids this.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from shardlab.costs.compression import BLOCK

LARGEST = 127


class Quantized(NamedTuple):
    """`codes` [blocks, BLOCK] int8 and `scales` [blocks] float32. The value is the code times its block's scale."""

    codes: Tensor
    scales: Tensor


def quantize(values: Tensor) -> Quantized:
    """Round a flat tensor to 8 bits, block by block. The last block is padded with zeros.

    The error is at most half a scale, which is 1/254 of the block's largest number. Raises ValueError for infinite
    numbers and NaN, which no scale can represent.
    """
    padding = -values.numel() % BLOCK
    blocks = torch.nn.functional.pad(values.float(), (0, padding)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1) / LARGEST
    if not torch.isfinite(scales).all():
        raise ValueError("a value is infinite or not a number, so no scale can hold it: check this step's loss")
    codes = torch.round(blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None])
    return Quantized(codes.to(torch.int8), scales)


def dequantize(quantized: Quantized, num_elements: int) -> Tensor:
    """The values as float32, without the padding."""
    return (quantized.codes.float() * quantized.scales[:, None]).view(-1)[:num_elements]


def as_bytes(quantized: Quantized) -> Tensor:
    """Codes and scales in one message of costs.compression.quantized_bytes."""
    return torch.cat([quantized.codes.view(-1).view(torch.uint8), quantized.scales.view(torch.uint8)])


def as_message(values: Tensor) -> Tensor:
    """Quantized values as bytes. If any value is infinite or NaN, bytes that `from_bytes` reads as all NaN."""
    if values.isfinite().all():
        return as_bytes(quantize(values))
    return torch.full_like(as_bytes(quantize(torch.zeros_like(values))), 255)  # scales of 0xFFFFFFFF are NaN


def from_bytes(message: Tensor) -> Quantized:
    """The inverse of `as_bytes`."""
    blocks = message.numel() // (BLOCK + 4)
    codes, scales = message[: blocks * BLOCK], message[blocks * BLOCK :]
    return Quantized(codes.view(torch.int8).view(blocks, BLOCK), scales.clone().view(torch.float32))
