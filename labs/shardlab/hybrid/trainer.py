"""Three axes in one step: data (dp), pipeline (pp) and tensor parallel (tp). All five are in `mesh_trainer`.

Every axis sees its own group and nothing of the others: a pipeline stage is a module, whether its matrices are cut or
not; a schedule sends activations, whoever computed them; data parallelism averages whatever gradients a rank has.
What concerns two axes at once is here: which layers this rank has (`stage`), when gradients are averaged, and their
norm (`norm`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.model import divisors
from shardlab.data_parallel.ddp import DataParallel
from shardlab.hybrid.norm import clip_by_whole_norm
from shardlab.hybrid.stage import StageOfGPT
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.model.gpt import GPT, next_token_loss
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import Schedule
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.tensor_parallel.gradients import split_parameters


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
            raise ValueError(
                f"cp = {mesh.cp}, ep = {mesh.ep}: this step has dp, pp and tp; use 1 for the others, or MeshTrainer"
            )
        if whole.head.weight is whole.token.weight:
            raise ValueError(
                "the first and the last stage would each train the shared weight: use tied=False, or MeshTrainer"
            )
        if (kv_heads := whole.config.kv_heads or whole.config.heads) % mesh.tp:
            raise ValueError(
                f"{kv_heads} key-value heads over tp = {mesh.tp}: ranks would share one, and its gradient would count "
                f"more than once in the norm; use a tp among {divisors(kv_heads)}"
            )
        self.groups, self.num_microbatches, self.max_norm = groups, num_microbatches, max_norm
        self.stage = mesh.coordinates(dist.get_rank())["pp"]
        self.module = StageOfGPT(whole, self.stage, mesh.pp, tp_group=groups.of("tp"))
        self.hidden = whole.config.hidden
        self.replicas = DataParallel(self.module, group=groups.of("dp"))
        self.optimizer = new_optimizer(list(self.module.parameters()))
        self.schedule = schedule(mesh.pp, num_microbatches)

    def step(self, tokens_BS: Tensor, targets_BS: Tensor) -> float | None:
        """One step on this replica's part of the batch; the loss of that part in the last stage, None elsewhere.

        Every rank of a replica gives the same.
        1. forward and backward of all microbatches  2. mean over dp  3. clip by the norm of the whole  4. update.
        Raises ValueError when the batch cannot be cut into the microbatches.
        """
        stage = self._as_stage(tokens_BS, targets_BS)
        self.optimizer.zero_grad()
        with self.replicas.no_sync():
            execute(self.schedule, {self.stage: stage}, group=self.groups.of("pp"), agreed=True)

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
    """The mean over dp of gradients that all microbatches have added up, once per step, in data parallelism's buckets.

    Its hooks were off while the schedule ran; a backward of zeros runs through each of them once.
    """
    uses = [parameter.view_as(parameter) for parameter in replicas.module.parameters() if parameter.requires_grad]
    torch.autograd.backward(uses, [torch.zeros_like(use) for use in uses])
