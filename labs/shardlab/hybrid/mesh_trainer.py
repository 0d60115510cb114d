"""Five axes in one step: data, pipeline, context, tensor and expert parallel ranks together match a single process.

Each axis sees only its own group. This folder holds what concerns several axes at once: which part of the model a rank
has (`part`, `cutting`), the batch and its loss (`batch`), over which ranks a gradient is summed (`weights`, `sums`),
and the norm of the whole gradient (`clipping`). `pieces` names every tensor for a checkpoint.

The loss is divided by the valid tokens of the whole batch before the first backward. Gradients are therefore summed and
never averaged: dense ones over dp and cp, those of experts over edp, partial ones over tp, and a tied embedding's over
the two stages that hold it. MoE layers have their own losses, computed per microbatch over all ranks and averaged over
the microbatches. The result equals that of one process whose j-th microbatch contains the replicas' j-th microbatches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.context_parallel.balance import SequenceLayout, contiguous
from shardlab.hybrid import refusals
from shardlab.hybrid.batch import Microbatches, microbatches, num_valid_tokens, summed_loss
from shardlab.hybrid.groups import STAGE, WORLD, training_groups
from shardlab.hybrid.part import PartOfModel, Whole, cut, set_layout
from shardlab.hybrid.places import ParameterPlace, places_of
from shardlab.hybrid.refusals import moe_of, moe_text, optimizer_text
from shardlab.hybrid.settings import Settings
from shardlab.hybrid.stage_weights import NewWeights
from shardlab.hybrid.sums import (
    CountingStage,
    NotFinite,
    check_finite,
    forget_loads,
    owned_by,
    squares_of,
    sum_partial_slices,
    sum_tied_slices,
    summed,
    update_biases,
)
from shardlab.hybrid.weights import NewOptimizer
from shardlab.mesh.gradient_norm import clip_by_norm
from shardlab.mesh.process_groups import GRADIENTS, ProcessGroups
from shardlab.pipeline_parallel.execution import RankTimes, execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.tensor_parallel.gradients import PartialShard, partial_shards


class Step(NamedTuple):
    """The result of a step, the same on every rank: the mean loss per valid token, the norm of the whole gradient
    before clipping, and the number of valid tokens.
    """

    loss: float
    norm: float
    num_valid: int


class MeshTrainer:
    """Trains this rank's part of a GPT, dense or with experts, on any mesh.

    whole: the model, the same on every rank, which keeps only its part; or a `LayerByLayer`, which no rank builds
    completely. groups: the mesh's, from `create_process_groups`. new_optimizer: a class or a functools.partial of one;
    with zero = 0, any function of a list of parameters. Collective: every rank of the world must construct it.

    Raises the same ValueError on every rank if a combination is unsupported (the message says what would work), and if
    the ranks have different models or settings.
    """

    def __init__(
        self, whole: Whole, groups: ProcessGroups, new_optimizer: NewOptimizer, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        self.settings, self.mesh, self.config = settings, groups.mesh, whole.config
        moe = moe_of(whole)
        told = [
            f"{self.mesh}",
            *settings.lines(),
            f"optimizer {optimizer_text(new_optimizer)}",
            f"experts {moe_text(moe)}",
        ]
        refusals.check_same(whole, told, group=None)
        self.schedule = settings.schedule(self.mesh.pp, settings.num_microbatches)
        refusals.check(whole, moe, self.mesh, settings, self.schedule)

        self.groups = training_groups(groups, has_experts=moe is not None)
        self.times = RankTimes([], [])  # this rank's slots in the latest step
        self.num_stages, self._pp_rank = num_stages(self.schedule), dist.get_rank(groups.of("pp"))
        self.parts = self._parts(whole)
        self._tied, self._peer = self._tie()
        self.places: dict[nn.Parameter, ParameterPlace] = {}
        self._partial_shards: dict[nn.Parameter, list[PartialShard]] = {}
        for stage, part in self.parts.items():
            has_twin = self._peer is not None and stage == self.num_stages - 1
            self.places = places_of(part, self.groups, has_twin=has_twin) | self.places
            self._partial_shards |= partial_shards(part, group=groups.of("tp"))
        new_weights = NewWeights(settings, new_optimizer, self.places, self._tied)
        self.weights, self._modules = new_weights.of(self.parts, self.groups)
        self.owned = [one for weights in self.weights for one in owned_by(weights, self.places)]

    # ---- a step ------------------------------------------------------------------------------------------------------

    def step(self, tokens_BS: Tensor, labels_BS: Tensor) -> Step:
        """One step on this replica's whole sequences [B, S] and their labels, `context_parallel.next_tokens(tokens)`.

        1. check that the ranks' batches match, and count the valid tokens  2. all passes of all microbatches
        3. sum gradients  4. norm and clip  5. update.

        Every rank of a replica passes the same batch. Labels of IGNORED (-100) do not count. Raises the same ValueError
        on every rank, before any weight changes, if the batches do not match or a gradient is not finite.
        """
        num_valid = num_valid_tokens(tokens_BS, labels_BS, self.groups, vocabulary=self.config.vocabulary)
        stages = self._stages(self._microbatches(tokens_BS, labels_BS, num_valid))
        with ExitStack() as passes:
            for weights in self.weights:
                passes.enter_context(weights.passes())
            self.times = execute(self.schedule, stages, group=self.groups.of("pp"), agreed=True)

        self._sum_gradients()

        losses = [loss.double().item() for stage in stages.values() for loss in stage.losses.values()]
        mine = [squares_of(self.owned), sum(losses) / self.mesh.tp]
        squares, loss = summed(mine, group=self.groups.of(*WORLD), device=tokens_BS.device)
        norm = squares**0.5
        try:
            bad = (self.places[one] for weights in self.weights for one in weights.bad())
            check_finite(norm + loss, bad, self.owned, group=self.groups.of(*WORLD))
        except NotFinite:
            for weights in self.weights:
                weights.forget()  # so that the next step starts without these gradients
            raise
        if self.settings.max_norm is not None:
            gradients = (one.grad for one in self.masters() if one.grad is not None)
            clip_by_norm(gradients, norm, self.settings.max_norm)

        for weights in self.weights:
            weights.update()
        if self.settings.bias_rate:
            update_biases(self.parts.values(), rate=self.settings.bias_rate, group=self.groups.of(*STAGE))
        return Step(loss, norm, num_valid)

    def masters(self) -> Iterator[nn.Parameter]:
        """The parameters that this rank's optimizers update."""
        yield from {one.slice.master: None for one in self.owned}

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """This rank's optimizers. To change a learning rate, set it in their param_groups on every rank."""
        return [weights.optimizer for weights in self.weights]

    def _microbatches(self, tokens_BS: Tensor, labels_BS: Tensor, num_valid: int) -> Microbatches:
        layout, rank = self._layout(tokens_BS.shape[1]), dist.get_rank(self.groups.of("cp"))
        splits = self.settings.sequence_parallel or any(place.is_expert for place in self.places.values())
        refusals.check_length(layout.length, self.config, self.mesh, splits_sequence=splits)
        for part in self.parts.values():
            set_layout(part, layout, rank)
        return microbatches(tokens_BS, labels_BS, self.settings.num_microbatches, layout, rank, num_valid)

    def _stages(self, batch: Microbatches) -> dict[int, CountingStage]:
        """This rank's stages with the step's microbatches, ready for `execute`."""
        rows, own = batch.tokens[0].shape
        own //= self.mesh.tp if self.settings.sequence_parallel else 1
        dtype = next(iter(self.places)).dtype
        like = torch.empty(rows, own, self.config.hidden, dtype=dtype, device=batch.tokens[0].device)
        tp_group = self.groups.of("tp") if self.settings.splits_vocabulary else None
        loss = summed_loss(batch.labels, vocabulary=self.config.vocabulary, tp_group=tp_group)
        forget_loads(self.parts.values())
        return {
            stage: CountingStage(
                module,
                inputs=batch.tokens if stage == 0 else None,
                input_like=like if stage else None,
                loss=loss if stage + 1 == self.num_stages else None,
                loss_weight=1 / batch.num_valid,
                recompute=self.settings.recompute == "stage",
            )
            for stage, module in self._modules.items()
        }

    def _sum_gradients(self) -> None:
        """1. over dp and cp, or edp  2. over tp where partial  3. over both stages of a tied embedding."""
        for weights in self.weights:
            weights.reduce()
        slices = [one.slice for one in self.owned]
        sum_partial_slices(slices, self._partial_shards, group=self.groups.of("tp"))
        if self._tied is not None and self._peer is not None:
            sum_tied_slices(slices, self._tied, self._peer, group=self.groups.of("pp"))

    # ---- construction ------------------------------------------------------------------------------------------------

    def _layout(self, length: int) -> SequenceLayout:
        return contiguous(length, 1) if self.mesh.cp == 1 else self.settings.layout(length, self.mesh.cp)

    def _parts(self, whole: Whole) -> dict[int, PartOfModel]:
        """This rank's stages, each split over tp, cp and ep."""
        layout, parts = self._layout(self.config.sequence), {}
        sharer = dist.get_rank(self.groups.of(*GRADIENTS))
        for stage in stages_of_rank(self.schedule, self._pp_rank):
            parts[stage] = PartOfModel(whole, stage, self.num_stages)
            seed = self.settings.seed + 7919 * (stage + self.num_stages * sharer)  # for dropout, unique
            cut(parts[stage], self.groups, self.settings, layout=layout, seed=seed)
        return parts

    def _tie(self) -> tuple[nn.Parameter | None, int | None]:
        """Tie the head to the embedding: one shared tensor if both are on one rank, equal values if on two.

        Returns this rank's copy and the pipeline rank that holds the other one, or (None, None) if there is none.
        """
        last = self.num_stages - 1
        if not self.config.tied or last == 0:
            return None, None
        homes = {stage: rank for rank in range(self.mesh.pp) for stage in stages_of_rank(self.schedule, rank)}
        if homes[0] == homes[last]:
            if last in self.parts:
                self.parts[last].head.weight = self.parts[0].token.weight  # type: ignore[union-attr]
            return None, None
        if self._pp_rank == homes[0]:
            mine, peer = self.parts[0].token.weight, homes[last]
            dist.send(mine.detach(), group=self.groups.of("pp"), group_dst=peer)
        elif self._pp_rank == homes[last]:
            mine, peer = self.parts[last].head.weight, homes[0]  # type: ignore[union-attr]
            dist.recv(mine.detach(), group=self.groups.of("pp"), group_src=peer)
        else:
            return None, None
        return mine, peer
