"""Six public bugs planted in a five-axis step: (nearly) the same loss, but wrong gradients on one axis. For week 15.

    blocks = shardlab.run(gradients_of_suspect, "norms are partial", Mesh(tp=2), ranks=2)
    joined(blocks)["norm.weight"]  # the whole model's gradient, as a single process has it

Each bug is planted where it was found: in the batch (what a microbatch counts) or in the sums after the backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.training import IGNORED, next_tokens
from shardlab.hybrid.batch import Microbatches
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.settings import Settings
from shardlab.hybrid.sums import gradient_of, sum_tied_slices
from shardlab.mesh.axes import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPTConfig
from shardlab.model.moe import MoEConfig
from shardlab.model.moe_gpt import MoEGPT
from shardlab.model.router import Choice

NOTHING = "nothing"
NORMS = "norms are partial"  # NVIDIA/Megatron-LM#1446
EXPERTS = "experts times ep"  # deepspeedai/DeepSpeed#5618
MEANS = "a mean of means"  # NVIDIA/Megatron-LM#7513
TIED = "each end keeps its own"  # uw-syfi/piper#13
LAST = "the last microbatch alone"  # NVIDIA-NeMo/Automodel#3530
REPLICAS = "replicas are not told"  # pytorch/pytorch#144530
FAULTS = (NORMS, EXPERTS, MEANS, TIED, LAST, REPLICAS)
SEQUENCE, ROWS, VOCABULARY, PROMPT = 16, 8, 32, 6


class Block(NamedTuple):
    """One rank's block of a whole tensor's gradient."""

    name: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    numbers: Tensor


class Suspect(MeshTrainer):
    """A MeshTrainer with one of FAULTS or NOTHING. `blocks` holds the last step's gradients, before the update."""

    fault = NOTHING
    blocks: list[Block]

    def _microbatches(self, tokens_BS: Tensor, labels_BS: Tensor, num_valid: int) -> Microbatches:
        if self.fault == LAST and self.mesh.pp > 1:
            labels_BS = labels_BS.clone()
            labels_BS[: len(labels_BS) // self.settings.num_microbatches] = IGNORED
        batch = super()._microbatches(tokens_BS, labels_BS, num_valid)
        if self.fault == MEANS:
            own = torch.tensor(sum(int((one != IGNORED).sum()) for one in batch.labels))
            dist.all_reduce(own, group=self.groups.of("dp"))
            batch = batch._replace(num_valid=self.mesh.cp * own.item())
        return batch

    def _sum_gradients(self) -> None:
        if self.fault == NORMS:
            kept = {p: found for p, found in self._partial_shards.items() if "norm" not in self.places[p].name}
            self._partial_shards = kept
        if self.fault == TIED:
            self._tied = None
        if self.fault == REPLICAS and self.mesh.dp > 1:
            self._sum_without_replicas()
        else:
            super()._sum_gradients()
        for one in self.owned:
            if self.fault == EXPERTS and one.place.is_expert:
                gradient_of(one.slice).mul_(self.mesh.ep)
            if self.fault == REPLICAS:
                gradient_of(one.slice).mul_(self.mesh.dp)  # each replica's own mean, not its share of the global one
        self.blocks = list(self._blocks())

    def _sum_without_replicas(self) -> None:
        """The backward was split into B and W, so hooks that wait for a full backward never ran."""
        slices = [one.slice for one in self.owned]
        if self._tied is not None and self._peer is not None:
            sum_tied_slices(slices, self._tied, self._peer, group=self.groups.of("pp"))

    def _blocks(self) -> Iterable[Block]:
        for one in self.owned:
            if not one.place.is_twin:
                gradient = gradient_of(one.slice)
                for block in one.fragments:
                    yield Block(one.place.name, one.place.shape, block.offsets, block.of(gradient).clone())


def gradients_of_suspect(fault: str, mesh: Mesh) -> tuple[float, list[Block]]:
    """On each rank of a mesh: the logged loss and this rank's blocks of the gradients."""
    torch.manual_seed(0)
    config = GPTConfig(layers=2, hidden=16, heads=4, sequence=SEQUENCE, vocabulary=VOCABULARY)
    whole = MoEGPT(config, MoEConfig(hidden=16, width=16, choice=Choice(experts=4, k=2)))
    settings = Settings(num_microbatches=2, sequence_parallel=mesh.tp > 1)
    trainer = Suspect(whole, create_process_groups(mesh), partial(torch.optim.SGD, lr=0.0), settings)
    batch = batch_of_suspect(mesh.dp, mesh.coordinates(dist.get_rank())["dp"])
    loss = trainer.step(*batch).loss if fault == LAST else None  # the logged loss was summed separately and is correct
    trainer.fault = fault
    found = trainer.step(*batch)
    return found.loss if loss is None else loss, trainer.blocks


def batch_of_suspect(dp: int, replica: int) -> tuple[Tensor, Tensor]:
    """A replica's part of a single process's microbatches. Prompts of different lengths are ignored in the loss."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (ROWS, SEQUENCE), generator=generator)
    labels = next_tokens(tokens)
    for row in range(ROWS):
        labels[row, : PROMPT + row % 3] = IGNORED
    mine = [torch.cat([half.chunk(dp)[replica] for half in one.chunk(2)]) for one in (tokens, labels)]
    return mine[0], mine[1]


def joined(blocks_by_rank: Sequence[Iterable[Block]]) -> dict[str, Tensor]:
    """The whole model's gradients by name. If several ranks hold a block, the first rank's is used."""
    whole: dict[str, Tensor] = {}
    for blocks in reversed(blocks_by_rank):
        for block in blocks:
            found = whole.setdefault(block.name, torch.full(block.shape, torch.nan))
            spans = zip(block.offsets, block.numbers.shape, strict=True)
            found[tuple(slice(begin, begin + size) for begin, size in spans)] = block.numbers
    return whole
