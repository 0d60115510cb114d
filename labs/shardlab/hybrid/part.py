"""One pipeline stage's part of a model, split over tp, cp and ep; parameters keep their names in the whole model.

Each axis uses its own package, in an order that works: 1. tp: matrices, vocabulary, and with sequence parallelism
everything between the matrices  2. cp: attention, between the query-key-value matrix and the projection  3. ep and etp:
MoE layers, where each rank has different tokens.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.gpt import ContextParallelCore, split_attention
from shardlab.expert_parallel.layer import ParallelMoE, Splits
from shardlab.hybrid.groups import STAGE
from shardlab.hybrid.settings import Settings
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoE
from shardlab.model.recomputation import recompute
from shardlab.tensor_parallel.gpt import block_plan
from shardlab.tensor_parallel.operators import gather, split
from shardlab.tensor_parallel.plan import Plan, apply_plan
from shardlab.tensor_parallel.splits import SEQUENCE_DIM, OnPartOfSequence, Positions, Random, Vocabulary


class Whole(Protocol):
    """A model with accessible parts: a `GPT`, a `MoEGPT`, or a `LayerByLayer`, which builds each part on demand."""

    config: GPTConfig
    token: Any
    position: Any
    blocks: Any
    norm: Any
    head: Any


class PartOfModel(nn.Module):
    """Some blocks, plus the embedding in the first stage, and the norm and the head in the last.

    Blocks keep their index in the whole model: `blocks.7.up.weight` has this name on every mesh, whatever its index on
    a rank. positions: of this rank's tokens, set before each step.
    """

    def __init__(self, whole: Whole, stage: int, num_stages: int) -> None:
        super().__init__()
        self.config = whole.config
        is_first, is_last = stage == 0, stage + 1 == num_stages
        self.token, self.position = copied(whole.token if is_first else None, whole.position if is_first else None)
        self.dropout = copied(whole.dropout)[0] if is_first else None  # type: ignore[attr-defined]
        layers = layers_of(stage, num_stages, whole.config.layers)
        self.blocks = nn.ModuleDict({str(layer): copied(whole.blocks[layer])[0] for layer in layers})
        self.norm = copied(whole.norm)[0] if is_last else None
        self.head = copied(whole.head)[0] if is_last else None
        if is_first and is_last and whole.config.tied:
            self.head.weight = self.token.weight  # type: ignore[union-attr]
        self.positions: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x: tokens_BS in the first stage, hidden_BSH in the others. The last stage returns logits_BSV."""
        positions = torch.arange(x.shape[1], device=x.device) if self.positions is None else self.positions
        if self.token is not None and self.dropout is not None:
            x = self.token(x)
            x = self.dropout(x if self.position is None else x + self.position(positions))
        for block in self.blocks.values():
            x = block(x, positions) if self.config.rope else block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def layers_of(stage: int, num_stages: int, num_layers: int) -> range:
    """The layers of a stage. If they do not divide evenly, the first stages get one more.

    Raises ValueError if there are more stages than layers.
    """
    if not 1 <= num_stages <= num_layers:
        raise ValueError(f"{num_layers} layers cannot fill {num_stages} stages: use 1 to {num_layers} stages")
    quotient, rest = divmod(num_layers, num_stages)
    begin = stage * quotient + min(stage, rest)
    return range(begin, begin + quotient + (stage < rest))


def copied(*modules: nn.Module | None) -> list[Any]:
    """Deep copies, so that the whole model stays unchanged and can be freed."""
    return [copy.deepcopy(one) for one in modules]


class Share(nn.Module):
    """A module that exposes only some of another module's parameters, for one kind of data parallelism.

    Calling it calls the whole wrapped module.
    """

    def __init__(self, module: nn.Module, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self.module, self._chosen = module, parameters

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        return iter(self._chosen.items() if recurse else ())


def cut(part: PartOfModel, groups: ProcessGroups, settings: Settings, *, layout: SequenceLayout, seed: int) -> None:
    """Reduce a stage's part to this rank's share, in place. Raises ValueError if the ranks do not divide a size."""
    apply_plan(part, plan_of(part, settings), group=groups.of("tp"), seed=seed)
    if groups.mesh.cp > 1:
        split_attention(part, layout=layout, group=groups.of("cp"), method=settings.context, agreed=True)
    _spread_experts(part, groups, settings)
    if settings.recompute == "full":
        recompute(part, "blocks.*")
    elif settings.recompute == "selective":
        recompute(part, "blocks.*.attention.core")


def plan_of(part: PartOfModel, settings: Settings) -> Plan:
    """How tp splits this stage: its blocks, and the embedding and the head if the stage has them."""
    has_experts = any(isinstance(one, MoE) for one in part.modules())
    sequence = settings.sequence_parallel
    of_block = block_plan(part.config, sequence_parallel=sequence)
    plan = {f"blocks.*.{path}": way for path, way in of_block.items() if not (has_experts and path in ("up", "down"))}
    if part.token is not None:
        plan |= {"dropout": Random(sequence)}
        plan |= {"token": Vocabulary(sequence=sequence)} if settings.splits_vocabulary else {}
        plan |= {"position": Positions()} if sequence and part.position is not None else {}
    if part.head is not None:
        plan |= {"head": Vocabulary(sequence=sequence)} if settings.splits_vocabulary else {}
        plan |= {"norm": OnPartOfSequence()} if sequence else {}
    return plan


class TokensInParts(ParallelMoE):
    """An MoE layer on tp ranks that all have the same tokens: each rank routes a part of the sequence.

    Otherwise every token would visit its experts tp times, and the experts' gradients would be tp times too large.
    """

    def __init__(self, whole: MoE, splits: Splits, tp_group: dist.ProcessGroup) -> None:
        super().__init__(whole, splits)
        self.tp_group = tp_group

    def forward(self, x_BSH: Tensor) -> Tensor:
        own = split(x_BSH, SEQUENCE_DIM, group=self.tp_group)
        return gather(super().forward(own), SEQUENCE_DIM, group=self.tp_group)


def _spread_experts(part: PartOfModel, groups: ProcessGroups, settings: Settings) -> None:
    layers = {path: one for path, one in part.named_modules() if isinstance(one, MoE)}
    if not layers:
        return
    tokens = groups.of(*STAGE)
    tensor = groups.of("etp") if groups.mesh.expert_tp > 1 else None
    splits = Splits(groups.of("ep"), tensor, tokens)
    for path, layer in layers.items():
        if groups.mesh.tp > 1 and not settings.sequence_parallel:
            spread = TokensInParts(layer, splits, groups.of("tp"))
        else:
            spread = ParallelMoE(layer, splits)
        spread.weight_of_loss = 1 / (settings.num_microbatches * dist.get_world_size(tokens))
        if groups.mesh.tp > 1:  # these are whole on every tp rank, but each rank sees only a part of the tokens
            for one in (spread.router, spread.shared):
                _mark_partial(one)
        parent, _, name = path.rpartition(".")
        setattr(part.get_submodule(parent), name, spread)


def _mark_partial(module: nn.Module | None) -> None:
    if module is not None:
        module.partial = tuple(name for name, _ in module.named_parameters())  # type: ignore[assignment]


def set_layout(part: PartOfModel, layout: SequenceLayout, rank: int) -> None:
    """Set how the next batch's sequences are split: positions and attention follow. rank: in the cp group."""
    part.positions = layout.positions(rank).to(next(part.parameters()).device)
    for one in part.modules():
        if isinstance(one, ContextParallelCore):
            one.layout = layout
