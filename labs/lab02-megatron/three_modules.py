"""The same module three times with the same weights: on one process, split by our plan, and Megatron's."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import megatron_models as megatron
import torch
import torch.distributed as dist
from shardlab.model.gpt import GPT, Block, GPTConfig
from shardlab.model.recomputation import recompute
from shardlab.tensor_parallel.checkpoint import joined
from shardlab.tensor_parallel.gpt import block_plan, gpt_plan
from shardlab.tensor_parallel.gradients import cuts_of, sum_partial_gradients
from shardlab.tensor_parallel.plan import apply_plan
from shardlab.tensor_parallel.splits import Column, Row
from shardlab.tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy
from torch import Tensor, nn
from torch.nn import functional

RECOMPUTED = {"selective": "blocks.*.attention.core", "full": "blocks.*"}


class Part(StrEnum):
    """The part to compare: a column and a row layer, a stack of blocks, or a whole model with its loss."""

    LAYERS, BLOCKS, MODEL = "layers", "blocks", "model"


@dataclass(frozen=True)
class Case:
    """The part to compare, its sizes, and how it is split. recompute: "none", "selective" or "full", for blocks."""

    part: Part
    sizes: GPTConfig
    microbatch: int = 2
    sequence_parallel: bool = False
    recompute: str = "none"

    @property
    def splits_sequence(self) -> bool:
        """Whether inputs and outputs are a rank's shard of the sequence; a whole model takes and returns all tokens."""
        return self.sequence_parallel and self.part is not Part.MODEL


class Step(NamedTuple):
    """A module and how to use it: forward to [B, S, ...] from a rank's inputs, and how to get whole gradients."""

    module: nn.Module
    forward: Callable[[Tensor], Tensor]
    finish: Callable[[], None]
    gradients: Callable[[], dict[str, Tensor]]


def whole_module(case: Case) -> nn.Module:
    """The whole module on one process, with nonzero biases, so that adding one twice shows."""
    torch.manual_seed(0)
    module = {Part.LAYERS: WholeLayers, Part.BLOCKS: WholeBlocks, Part.MODEL: GPT}[case.part](case.sizes)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module


class WholeLayers(nn.Module):
    """Two linear layers around a GELU."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(config.hidden, 4 * config.hidden), nn.Linear(4 * config.hidden, config.hidden)

    def forward(self, x_BSH: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x_BSH)))


class WholeBlocks(nn.Module):
    """Only the blocks of a GPT."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))

    def forward(self, x_BSH: Tensor) -> Tensor:
        for block in self.blocks:
            x_BSH = block(x_BSH)
        return x_BSH


def inputs_of(case: Case) -> tuple[Tensor, Tensor]:
    """Inputs, the same on every rank (activations [B, S, H] or tokens [B, S]), and targets for the outputs."""
    shape = (case.microbatch, case.sizes.sequence)
    torch.manual_seed(1)
    if case.part is Part.MODEL:
        tokens, targets = torch.randint(case.sizes.vocabulary, (2, *shape))
        return tokens, targets
    return torch.randn(*shape, case.sizes.hidden), torch.empty(*shape, case.sizes.hidden)


def of_one_process(case: Case, whole: nn.Module, targets: Tensor) -> Step:
    """The whole module, run by every rank on its own."""

    def losses(tokens: Tensor) -> Tensor:
        logits = whole(tokens).flatten(0, 1)
        return functional.cross_entropy(logits, targets.flatten(), reduction="none").view(targets.shape)

    forward = losses if case.part is Part.MODEL else whole
    return Step(whole, forward, lambda: None, lambda: gradients_of(whole))


def of_ours(case: Case, whole: nn.Module) -> Step:
    """Our module, split by a plan."""
    sequence, config = case.sequence_parallel, case.sizes
    plans = {
        Part.LAYERS: lambda: {"up": Column(sequence=sequence), "down": Row(sequence)},
        Part.BLOCKS: lambda: {
            f"blocks.*.{path}": split for path, split in block_plan(config, sequence_parallel=sequence).items()
        },
        Part.MODEL: lambda: gpt_plan(config, sequence_parallel=sequence),
    }
    module = apply_plan(deepcopy(whole), plans[case.part](), group=None)
    if case.recompute != "none" and case.part is not Part.LAYERS:
        recompute(module, RECOMPUTED[case.recompute])
    targets = inputs_of(case)[1]

    def losses(tokens: Tensor) -> Tensor:
        return vocabulary_parallel_cross_entropy(module(tokens), targets, vocabulary=config.vocabulary, group=None)

    def whole_gradients() -> dict[str, Tensor]:
        parts: list = [None] * dist.get_world_size()
        dist.all_gather_object(parts, gradients_of(module))
        return joined(parts, cuts_of(module))

    forward = losses if case.part is Part.MODEL else module
    return Step(module, forward, lambda: sum_partial_gradients(module, group=None), whole_gradients)


def of_megatron(case: Case, whole: nn.Module) -> Step:
    """Megatron's modules, whose activations have the sequence as first dimension."""
    settings = megatron.megatron_config(case.sizes, sequence_parallel=case.sequence_parallel, recompute=case.recompute)
    makes = {
        Part.LAYERS: lambda: megatron.Layers(settings),
        Part.BLOCKS: lambda: megatron.Blocks(settings),
        Part.MODEL: lambda: megatron.gpt_model(settings, case.sizes),
    }
    module = makes[case.part]()
    megatron.take_weights(module, whole, case.sizes)
    targets, positions = inputs_of(case)[1], torch.arange(case.sizes.sequence).expand(case.microbatch, -1)

    def losses(tokens: Tensor) -> Tensor:
        return module(tokens, positions, megatron.causal_mask(case.sizes.sequence), labels=targets)

    forward = losses if case.part is Part.MODEL else lambda x: module(x.transpose(0, 1)).transpose(0, 1)
    return Step(
        module,
        forward,
        lambda: megatron.finish_gradients(module, settings),
        lambda: megatron.whole_gradients(module, whole, case.sizes),
    )


def gradients_of(module: nn.Module) -> dict[str, Tensor]:
    """Gradients by name."""
    return {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
