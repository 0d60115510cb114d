"""Train a model on a mesh and in one process, for the tests of the five axes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial

import torch
import torch.distributed as dist
from shardlab.context_parallel.training import IGNORED, next_tokens
from shardlab.hybrid import MeshTrainer, Settings, chunks_to_save
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.moe_gpt import MoEGPT
from shardlab.model.router import Choice
from torch import nn
from torch.nn import functional

DENSE = GPTConfig(layers=4, hidden=16, heads=4, sequence=16, vocabulary=13, kv_heads=2, gated=True)
EXPERTS = MoEConfig(hidden=16, width=8, choice=Choice(4, 2), shared=1, gated=True, auxiliary=0.02, z=0.003)
adam = partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)
sgd = partial(torch.optim.SGD, lr=0.5, momentum=0.9)


@dataclass(frozen=True)
class Case:
    """A model, a mesh and how to train. rows: sequences per replica. frozen: name patterns."""

    mesh: Mesh = field(default_factory=Mesh)
    settings: Settings = field(default_factory=Settings)
    config: GPTConfig = DENSE
    moe: MoEConfig | None = None
    optimizer: Callable = adam
    dtype: torch.dtype = torch.float64
    rows: int = 4
    steps: int = 3
    frozen: tuple[str, ...] = ()

    def __str__(self):
        sizes = {name: getattr(self.mesh, name) for name in ("dp", "pp", "cp", "tp", "ep")}
        ways = [f"{name}{size}" for name, size in sizes.items() if size > 1] or ["alone"]
        if self.mesh.expert_tp != self.mesh.tp:
            ways.append(f"etp{self.mesh.expert_tp}")
        ways += [self.settings.schedule.__name__, f"zero{self.settings.zero}"]
        return "-".join([*ways, *(["moe"] if self.moe else []), *(["sp"] if self.settings.sequence_parallel else [])])


def new_model(case):
    """The whole model, with weights large enough for every part to matter."""
    torch.manual_seed(11)
    model = GPT(case.config) if case.moe is None else MoEGPT(case.config, case.moe)
    for name, one in model.named_parameters():
        nn.init.normal_(one, std=0.5 if "moe" in name else 0.2)
        one.requires_grad_(not any(fnmatch(name, pattern) for pattern in case.frozen))
    return model.to(case.dtype)


def batch_of(case, step, length=None):
    """Tokens and labels [B, S] of all replicas, each with a different number of valid labels."""
    generator = torch.Generator().manual_seed(step)
    shape = (case.mesh.dp * case.rows, length or case.config.sequence)
    tokens = torch.randint(case.config.vocabulary, shape, generator=generator)
    labels = next_tokens(tokens)
    labels[torch.rand(shape, generator=generator) < torch.linspace(0, 0.8, len(tokens)).unsqueeze(1)] = IGNORED
    return tokens, labels


def trained_alone(case, steps=None):
    """Train one process on the batches of all replicas. Returns model, losses, norms and the last step's gradients."""
    settings, model = case.settings, new_model(case)
    optimizer = case.optimizer(list(model.parameters()))
    layers = [one for one in model.modules() if isinstance(one, MoE)]
    for layer in layers:
        layer.weight_of_loss = 1 / settings.num_microbatches
    losses, norms = [], []
    for step in range(case.steps if steps is None else steps):
        tokens, labels = batch_of(case, step)
        optimizer.zero_grad()
        loads: list = [0] * len(layers)
        loss_of_step = 0.0
        num_valid = (labels != IGNORED).sum()
        for rows in microbatches_of_all(case):
            logits = model(tokens[rows])
            loads = [load + layer.load_E for load, layer in zip(loads, layers, strict=True)]
            loss = functional.cross_entropy(
                logits.flatten(0, 1), labels[rows].flatten(), ignore_index=IGNORED, reduction="sum"
            )
            (loss / num_valid).backward()
            loss_of_step += (loss / num_valid).item()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm or 1e9).item())
        optimizer.step()
        for layer, load in zip(layers, loads, strict=True):
            layer.load_E = load
            if settings.bias_rate:
                layer.update_bias(rate=settings.bias_rate)
        losses.append(loss_of_step)
    return model, losses, norms


def microbatches_of_all(case):
    """For each j, the rows of the whole batch in the replicas' j-th microbatches."""
    by_replica = torch.arange(case.mesh.dp * case.rows).view(case.mesh.dp, case.settings.num_microbatches, -1)
    return list(by_replica.transpose(0, 1).flatten(1))


def started(case, device="cpu", groups=None):
    """This rank's trainer and its replica's index. groups: the mesh's, if they already exist."""
    torch.set_num_threads(1)
    groups = groups or create_process_groups(case.mesh, device=device)
    trainer = MeshTrainer(new_model(case).to(device), groups, case.optimizer, case.settings)
    return trainer, case.mesh.coordinates(dist.get_rank())["dp"]


def own_rows(case, step, replica, device="cpu"):
    return [one.chunk(case.mesh.dp)[replica].to(device) for one in batch_of(case, step)]


def trained(case, device="cpu", groups=None):
    """A rank's losses and norms, and what it would write into a checkpoint."""
    trainer, replica = started(case, device, groups)
    told = [trainer.step(*own_rows(case, step, replica, device)) for step in range(case.steps)]
    chunks = [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.cpu().clone()) for c in chunks_to_save(trainer)]
    return [one.loss for one in told], [one.norm for one in told], chunks


def put_together(by_rank, kinds=("weight", "buffer")):
    """Whole tensors from all ranks' chunks, {(key, kind): tensor}. Each element must come from exactly one rank."""
    whole, times = {}, {}
    for chunks in by_rank:
        for key, kind, shape, offsets, tensor in chunks:
            if kind not in kinds:
                continue
            target = whole.setdefault((key, kind), torch.zeros(shape, dtype=tensor.dtype))
            count = times.setdefault((key, kind), torch.zeros(shape))
            box = tuple(slice(o, o + n) for o, n in zip(offsets, tensor.shape, strict=True))
            target[box], count[box] = tensor, count[box] + 1
    for name, count in times.items():
        assert (count == 1).all(), f"{name} is written {count.min():.0f} to {count.max():.0f} times"
    return whole


def differences(case, by_rank, alone=None):
    """The largest differences from one process in losses, norms and weights."""
    model, losses, norms = alone or trained_alone(case)
    whole = put_together([chunks for *_, chunks in by_rank])
    due = {(name, "weight"): one.detach() for name, one in model.named_parameters()}
    due |= {(name, "buffer"): one for name, one in model.named_buffers()}
    assert whole.keys() == due.keys(), whole.keys() ^ due.keys()
    loss = max(abs(a - b) for theirs, *_ in by_rank for a, b in zip(theirs, losses, strict=True))
    norm = max(abs(a / b - 1) for _, theirs, _ in by_rank for a, b in zip(theirs, norms, strict=True))
    return loss, norm, max((whole[name] - one).abs().max().item() for name, one in due.items())
