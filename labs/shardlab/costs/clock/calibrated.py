"""Step times of the labs on this machine, from its calibration: matmuls, other operations, Adam and messages.

Compute time is that of one rank alone times the slowdown of N concurrent ranks. Messages were measured between N ranks.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardlab.costs.clock.calibration import Calibration, Together
from shardlab.costs.overlap import exposed_seconds, ready_times, transfers
from shardlab.costs.traffic import all_gather_seconds, all_reduce_seconds

FP32 = 4
GATHERS = "all_gather"


def rate_at(rates: Mapping[int, float], size: float) -> float:
    """The rate at an unmeasured size: linear in the logarithm of the size, constant outside the measured range."""
    sizes = sorted(rates)
    if size <= sizes[0]:
        return rates[sizes[0]]
    for small, large in itertools.pairwise(sizes):
        if size <= large:
            share = math.log(size / small) / math.log(large / small)
            return rates[small] + share * (rates[large] - rates[small])
    return rates[sizes[-1]]


def matmul_seconds(rates: Mapping[int, float], rows: float, inner: float, columns: float) -> float:
    """2 rows inner columns FLOPs at the rate of a square matmul with as many FLOPs."""
    product = rows * inner * columns
    return 2 * product / rate_at(rates, product ** (1 / 3))


def products_seconds(
    rates: Mapping[int, float], layers: int, hidden: int, sequence: int, vocabulary: int, batch: int, heads: int = 4
) -> float:
    """Seconds of the matmuls in a GPT's forward and backward: three of each shape, one forward and two backward.

    Per layer: widths 3h, h, 4h and 4h, plus QK^T and AV for each head and sequence; at the end the head, of width V.
    """
    tokens, h = batch * sequence, hidden
    layer = sum(matmul_seconds(rates, tokens, h, width) for width in (3 * h, h, 4 * h, 4 * h))
    layer += 2 * batch * heads * matmul_seconds(rates, sequence, h / heads, sequence)
    return 3 * (layers * layer + matmul_seconds(rates, tokens, h, vocabulary))


def moved_seconds(here: Calibration, num_bytes: float, operands: float = 2) -> float:
    """Seconds to read or write `operands` operands of num_bytes each: a copy has two, a sum of two tensors three."""
    return operands * num_bytes / rate_at(here.memory, num_bytes)


def adam_step_seconds(here: Calibration, tensors: int, parameters: float) -> float:
    once, tensor, parameter = here.adam_seconds
    return once + tensor * tensors + parameter * parameters


def collective_seconds(here: Calibration, kind: str, num_ranks: int, num_bytes: float) -> float:
    """Seconds of a collective of a whole tensor of num_bytes, as ring messages; 0 with one rank."""
    if num_ranks == 1:
        return 0.0
    alpha, beta = here.of_ranks(num_ranks).links[kind]
    seconds = all_reduce_seconds if kind == "all_reduce" else all_gather_seconds
    return seconds(num_ranks, num_bytes, alpha=alpha, beta=beta)


def with_overlap(together: Together, compute: float, ideal_exposed: float, communication: float) -> float:
    """Compute, plus communication that cannot be hidden, plus the share of the rest that this machine does not hide."""
    hideable = communication - ideal_exposed
    return compute + ideal_exposed + (1 - together.hidden) * hideable


# ---- lab 1 -----------------------------------------------------------------------------------------------------------


def linear_layers_seconds(here: Calibration, products: float, layers: float, numbers: float, weights: float) -> float:
    """Forward and backward of linear layers with ReLU: matmul seconds plus overhead per layer, input and weight."""
    layer, number, weight = here.linear_seconds
    return products + layer * layers + number * numbers + weight * weights


def mlp_data_parallel_seconds(here: Calibration, num_ranks: int, samples: int, width: int) -> tuple[float, float]:
    """Two square layers, DDP without overlap: seconds of the passes with the gradient copy, and of the all-reduce.

    Five matmuls, as the first layer's input needs no gradient. Square and mean, forward and backward, move 12 operands.
    """
    num_bytes = FP32 * 2 * (width * width + width)
    products = 5 * matmul_seconds(here.matmul["float32"], samples, width, width)
    passes = linear_layers_seconds(here, products, 2, 2 * samples * width, 2 * width * width)
    moved = moved_seconds(here, FP32 * samples * width, 12) + moved_seconds(here, num_bytes)
    compute = (passes + moved) * here.of_ranks(num_ranks).slowdown
    return compute, collective_seconds(here, "all_reduce", num_ranks, num_bytes)


def mlp_tensor_parallel_seconds(here: Calibration, num_ranks: int, tokens: int, hidden: int) -> tuple[float, float]:
    """An MLP of 4h split by columns, then rows: seconds of the passes and of the two all-reduces of tokens x h.

    Six matmuls with 1/N of 4h, without biases. ReLU in both passes moves 5 operands, a copy of the result 2. 23
    operations reach torch.
    """
    width = 4 * hidden / num_ranks
    products = 6 * matmul_seconds(here.matmul["float32"], tokens, hidden, width)
    narrow = FP32 * tokens * hidden
    moved = moved_seconds(here, FP32 * tokens * width, 5) + moved_seconds(here, narrow) + 23 * here.operation
    compute = (products + moved) * here.of_ranks(num_ranks).slowdown
    return compute, 2 * collective_seconds(here, "all_reduce", num_ranks, narrow)


class LinearSeconds(NamedTuple):
    """Seconds of the three passes of a layer."""

    forward: float
    input_gradient: float
    weight_gradient: float


def linear_layer_seconds(here: Calibration, rows: int, width: int) -> LinearSeconds:
    """A square linear layer with ReLU on one microbatch of a pipeline, on one rank alone: a third for each pass.

    Weight gradients are added to those of earlier microbatches: three more operands of width x width.
    """
    products = 3 * matmul_seconds(here.matmul["float32"], rows, width, width)
    third = linear_layers_seconds(here, products, 1, rows * width, width * width) / 3
    return LinearSeconds(third, third, third + moved_seconds(here, FP32 * width * width, 3))


def message_between_stages(here: Calibration, num_ranks: int, num_bytes: float) -> float:
    """alpha + beta * bytes to send from one rank to the next."""
    alpha, beta = here.of_ranks(num_ranks).links["send"]
    return alpha + beta * num_bytes


# ---- lab 3 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallGPT:
    """Sizes of lab 3's model and of a rank's work in a step."""

    layers: int
    hidden: int
    batch: int
    sequence: int = 64
    vocabulary: int = 256

    @property
    def tensors(self) -> int:
        """Weights and biases of two norms and four linear layers, two embeddings and the last norm; tied head."""
        return 12 * self.layers + 4


def gpt_pass_seconds(here: Calibration, model: SmallGPT) -> float:
    """Forward and backward on one rank alone."""
    once, layer, number = here.pass_seconds
    products = products_seconds(
        here.matmul["float32"], model.layers, model.hidden, model.sequence, model.vocabulary, model.batch
    )
    numbers = model.batch * model.sequence * model.hidden
    return products + once + model.layers * (layer + number * numbers)


def zero_step_seconds(here: Calibration, num_ranks: int, stage: int, model: SmallGPT, vectors: Sequence[int]) -> float:
    """A step of DDP (stage 0) or ZeRO: passes, gradient bookkeeping, messages, and Adam on what a rank owns.

    vectors: elements sent together, in the order of the backward: a bucket (stages 0 and 2), everything (1), or a
    block, with the rest at the end (3). Raises ValueError for any other stage.
    """
    if stage not in range(4):
        raise ValueError(f"ZeRO stage {stage}: use 0 (DDP), 1, 2 or 3")
    together, total = here.of_ranks(num_ranks), sum(vectors)
    passes = gpt_pass_seconds(here, model)
    tensor, parameter = here.bookkeeping[stage]
    bookkeeping = tensor * model.tensors + parameter * total
    owned = total if stage == 0 else total / num_ranks
    adam = adam_step_seconds(here, model.tensors if stage == 0 else len(vectors), owned)
    compute = (passes + bookkeeping + adam) * together.slowdown
    messages, exposed = _messages(here, num_ranks, stage, vectors, passes * together.slowdown)
    return with_overlap(together, compute, exposed, messages)


def _messages(
    here: Calibration, num_ranks: int, stage: int, vectors: Sequence[int], passes: float
) -> tuple[float, float]:
    """Seconds of all messages, and of those that cannot be hidden.

    Gradients are sent as soon as the backward, two thirds of the passes, has computed them; in stage 1 at the end.
    Weights are gathered after the step with nothing to overlap. In stage 3 they are gathered twice per block and once
    for the rest: the first block of each pass and the rest are exposed, the others overlap with the block before.
    """

    def each(kind: str) -> list[float]:
        return [collective_seconds(here, kind, num_ranks, FP32 * size) for size in vectors]

    reduces = each("all_reduce" if stage == 0 else "reduce_scatter")
    backward = [passes * 2 / 3 * size / sum(vectors) for size in vectors]
    ready = ready_times(passes / 3, backward) if stage != 1 else [passes] * len(vectors)
    messages, exposed = sum(reduces), exposed_seconds(passes, transfers(ready, reduces))
    if stage in (1, 2):
        messages, exposed = messages + sum(each(GATHERS)), exposed + sum(each(GATHERS))
    if stage == 3:
        *blocks, rest = each(GATHERS)
        messages += 2 * sum(blocks) + rest
        exposed += rest + (blocks[0] + blocks[-1] if blocks else 0.0)
    return messages, exposed
