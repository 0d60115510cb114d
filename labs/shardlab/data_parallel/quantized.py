"""Numbers of eight bits with a scale for each block: a quarter of fp32's bytes, and a known error.

ZeRO++ (2306.10209), section 3.1: one scale for a whole tensor lets one large number drown all others; a scale for each
block of 256 does not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from shardlab.costs.compression import BLOCK

LARGEST = 127


class Quantized(NamedTuple):
    """`codes` [blocks, BLOCK] int8 and `scales` [blocks] float32; a code times its block's scale is the number."""

    codes: Tensor
    scales: Tensor


def quantize(values: Tensor) -> Quantized:
    """Round a flat tensor to 8 bits, block by block; the last block is filled with zeros.

    A number is off by half a scale at most: a 254th of its block's largest. Raises ValueError for numbers that are
    infinite or not numbers, which no scale can hold.
    """
    padding = -values.numel() % BLOCK
    blocks = torch.nn.functional.pad(values.float(), (0, padding)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1) / LARGEST
    if not torch.isfinite(scales).all():
        raise ValueError("a number is infinite or not a number: no scale can hold it. Look at the loss of this step.")
    codes = torch.round(blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None])
    return Quantized(codes.to(torch.int8), scales)


def dequantize(quantized: Quantized, num_elements: int) -> Tensor:
    """The numbers, float32, without the padding."""
    return (quantized.codes.float() * quantized.scales[:, None]).view(-1)[:num_elements]


def as_bytes(quantized: Quantized) -> Tensor:
    """Codes and scales end to end, one message of costs.compression.quantized_bytes."""
    return torch.cat([quantized.codes.view(-1).view(torch.uint8), quantized.scales.view(torch.uint8)])


def as_message(values: Tensor) -> Tensor:
    """Numbers quantized, in bytes; where one is infinite or no number, bytes that `from_bytes` reads as NaN alone."""
    if values.isfinite().all():
        return as_bytes(quantize(values))
    return torch.full_like(as_bytes(quantize(torch.zeros_like(values))), 255)  # scales of 0xFFFFFFFF are NaN


def from_bytes(message: Tensor) -> Quantized:
    """The other way round."""
    blocks = message.numel() // (BLOCK + 4)
    codes, scales = message[: blocks * BLOCK], message[blocks * BLOCK :]
    return Quantized(codes.view(torch.int8).view(blocks, BLOCK), scales.clone().view(torch.float32))
