"""Three axes in one step, the only file that combines them: data (dp), pipeline (pp) and tensor parallel (tp).

Every axis sees its own group and nothing of the others: a pipeline stage is a module, whether its matrices are cut or
not; a schedule sends activations, whoever computed them; data parallelism averages whatever gradients a rank has.
What concerns two axes at once is here: which layers this rank has, when gradients are averaged, and their norm.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.ddp import DataParallel
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.model.gpt import GPT, next_token_loss
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.tensor_parallel.blocks import ParallelBlock
from shardlab.tensor_parallel.layers import split_parameters


class StageOfGPT(nn.Module):
    """This rank's part of a GPT: some blocks, each cut over tp; the embedding in the first stage, the head in the last.

    Embedding, norm and head are whole on every tensor-parallel rank.
    """

    def __init__(self, whole: GPT, stage: int, num_stages: int, *, tp_group: dist.ProcessGroup | None) -> None:
        super().__init__()
        blocks = [whole.blocks[layer] for layer in layers_of(stage, num_stages, len(whole.blocks))]
        self.token = copy.deepcopy(whole.token) if stage == 0 else None
        self.position = copy.deepcopy(whole.position) if stage == 0 else None
        self.blocks = nn.ModuleList(ParallelBlock(block, group=tp_group) for block in blocks)  # type: ignore[arg-type]
        last = stage + 1 == num_stages
        self.norm = copy.deepcopy(whole.norm) if last else None
        self.head = copy.deepcopy(whole.head) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """x: tokens_BS in the first stage, hidden_BSH in the others; logits_BSV come out of the last."""
        if self.token is not None and self.position is not None:
            x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def layers_of(stage: int, num_stages: int, num_layers: int) -> range:
    """The layers of a stage; the first stages have one more where they do not divide.

    Raises ValueError for more stages than layers.
    """
    if not 1 <= num_stages <= num_layers:
        raise ValueError(f"{num_layers} layers cannot fill {num_stages} stages: use 1 to {num_layers} stages")
    quotient, rest = divmod(num_layers, num_stages)
    begin = stage * quotient + min(stage, rest)
    return range(begin, begin + quotient + (stage < rest))


class HybridTrainer:
    """Trains this rank's part of a GPT so that all ranks together do what one process does.

    whole: the model, the same on every rank; only this rank's part is kept. groups: of a mesh with cp = ep = 1.
    new_optimizer: makes an optimizer from a list of parameters. schedule: (stages, microbatches) -> orders.
    Raises ValueError for axes that this file does not combine, and for a model whose head is its embedding.
    """

    def __init__(
        self,
        whole: GPT,
        groups: ProcessGroups,
        new_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        num_microbatches: int,
        max_norm: float | None = None,
        schedule: Callable[[int, int], Schedule] = one_f_one_b,
    ) -> None:
        mesh = groups.mesh
        if mesh.cp > 1 or mesh.ep > 1:
            raise ValueError(f"cp = {mesh.cp}, ep = {mesh.ep}: this step combines dp, pp and tp; use 1 for the others")
        if whole.head.weight is whole.token.weight:
            raise ValueError("the first and the last stage would each train the shared weight: use tied=False")
        self.groups, self.num_microbatches, self.max_norm = groups, num_microbatches, max_norm
        self.stage = mesh.coordinates(dist.get_rank())["pp"]
        self.module = StageOfGPT(whole, self.stage, mesh.pp, tp_group=groups.of("tp"))
        self.hidden = whole.config.hidden
        self.replicas = DataParallel(self.module, group=groups.of("dp"))
        self.optimizer = new_optimizer(list(self.module.parameters()))
        self.schedule = schedule(mesh.pp, num_microbatches)

    def step(self, tokens_BS: Tensor, targets_BS: Tensor) -> float | None:
        """One step on this replica's part of the batch; the loss of that part in the last stage, None elsewhere.

        1. forward and backward of all microbatches  2. mean over dp  3. clip by the norm of the whole  4. update.
        Raises ValueError when the batch cannot be cut into the microbatches.
        """
        stage = self._as_stage(tokens_BS, targets_BS)
        self.optimizer.zero_grad()
        with self.replicas.no_sync():
            execute(self.schedule, {self.stage: stage}, group=self.groups.of("pp"))

        average_gradients(self.replicas)

        if self.max_norm is not None:
            split = split_parameters(self.module)
            clip_by_whole_norm(self.module.parameters(), split, self.max_norm, groups=self.groups)

        self.optimizer.step()
        return sum(loss.item() for loss in stage.losses.values()) if stage.losses else None

    def _as_stage(self, tokens_BS: Tensor, targets_BS: Tensor) -> ModuleStage:
        """The module with this step's microbatches, as the schedule wants it."""
        rows = tokens_BS.shape[0]
        if rows % self.num_microbatches:
            fits = rows // self.num_microbatches * self.num_microbatches or self.num_microbatches
            raise ValueError(
                f"{rows} sequences cannot be cut into {self.num_microbatches} microbatches: use {fits} sequences"
            )
        inputs, targets = (list(one.chunk(self.num_microbatches)) for one in (tokens_BS, targets_BS))
        is_first, is_last = self.stage == 0, self.stage + 1 == self.groups.mesh.pp
        like = next(self.module.parameters()).new_empty(*inputs[0].shape, self.hidden)
        return ModuleStage(
            self.module,
            inputs=inputs if is_first else None,
            input_like=None if is_first else like,
            loss=(lambda logits, microbatch: next_token_loss(logits, targets[microbatch])) if is_last else None,
            loss_weight=1 / self.num_microbatches,
        )


def average_gradients(replicas: DataParallel) -> None:
    """The mean over dp of gradients that all microbatches have added up, once a step, in data parallelism's buckets.

    Its hooks were off while the schedule ran; a backward of zeros runs through each of them once.
    """
    uses = [parameter.view_as(parameter) for parameter in replicas.module.parameters() if parameter.requires_grad]
    torch.autograd.backward(uses, [torch.zeros_like(use) for use in uses])


@torch.no_grad()
def whole_norm(parameters: Iterable[nn.Parameter], split: set[nn.Parameter], *, groups: ProcessGroups) -> Tensor:
    """The Euclidean norm of one model's gradients, wherever they lie; the same number on every rank.

    Squares add up over tp and pp. What every tensor-parallel rank holds is counted on the first of them only. Not over
    dp: there the gradients are already the same (Megatron-Core, optimizer/clip_grads.py, counts in the same way).
    split: the parameters of which tensor-parallel ranks have different parts.
    """
    first = dist.get_rank(groups.of("tp")) == 0
    total = torch.zeros((), dtype=torch.float64)
    for parameter in parameters:
        if parameter.grad is not None and (first or parameter in split):
            total += parameter.grad.double().square().sum().cpu()
    total = total.to(groups.device_mesh.device_type)
    dist.all_reduce(total, group=groups.of("tp", "pp"))
    return total.sqrt()


@torch.no_grad()
def clip_by_whole_norm(
    parameters: Iterable[nn.Parameter], split: set[nn.Parameter], max_norm: float, *, groups: ProcessGroups
) -> Tensor:
    """Scale all gradients so that the whole model's have a norm of at most `max_norm`; returns the norm before."""
    parameters = list(parameters)
    norm = whole_norm(parameters, split, groups=groups)
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)  # torch's clip_grad_norm_ has the same 1e-6
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale.to(parameter.grad.device))
    return norm


def sent_by_axis(events: Sequence[Any], groups: ProcessGroups) -> dict[str, float]:
    """Bytes that this rank sent on each axis, from the meter's events; calls of no group of the mesh under "other"."""
    of_group: dict[tuple[int, ...], str] = {}
    for axes, group in groups.by_axes.items():  # single axes come first: with cp = 1, dp is dp and not dp-cp
        of_group.setdefault(tuple(dist.get_process_group_ranks(group)), "-".join(axes))
    sent: dict[str, float] = {}
    for event in events:
        axis = of_group.get(event.members, "other")
        sent[axis] = sent.get(axis, 0.0) + event.sent_bytes
    return sent
