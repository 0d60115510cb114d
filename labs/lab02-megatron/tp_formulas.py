"""Bytes that our step sends, computed from sizes alone."""

from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes
from three_modules import Case, Part

FP32 = 4


def predicted_bytes(case: Case, size: int) -> float:
    """Bytes that our step sends on each rank, by formula.

    Counted in rings of bsh, each half an all-reduce: a pair of layers has two in each direction and, with sequence
    parallelism, one more, which gathers a column layer's input again (arXiv 1909.08053, 2205.05198 section 4.2.2).
    """
    config, sequence = case.sizes, case.sequence_parallel
    tokens = case.microbatch * config.sequence
    pairs = 1 if case.part is Part.LAYERS else 2 * config.layers
    rings = (5 if sequence else 4) * pairs
    if case.recompute == "full" and case.part is not Part.LAYERS:
        rings += 2 * pairs
    loss = 0.0
    if case.part is Part.MODEL:
        rings += 5 if sequence else 4  # the embedding's two; the head's two or three
        loss = ring_all_reduce_bytes(size, FP32 * 3 * tokens)
    whole = ring_all_reduce_bytes(size, FP32 * partial_numbers(case, size))
    return rings * ring_all_gather_bytes(size, FP32 * tokens * config.hidden) + loss + whole


def partial_numbers(case: Case, size: int) -> int:
    """Number of gradient elements still partial after the backward: see `tensor_parallel/gradients.py`."""
    config, hidden = case.sizes, case.sizes.hidden
    if case.part is Part.LAYERS:
        return hidden * case.sequence_parallel
    kv_heads = config.kv_heads or config.heads
    shared = 2 * kv_heads * (hidden // config.heads) * (hidden + 1) if kv_heads < size else 0
    if not case.sequence_parallel:
        return config.layers * shared
    outside = (2 + config.sequence) * hidden if case.part is Part.MODEL else 0
    return config.layers * (6 * hidden + shared) + outside
