"""Compare Megatron's pipelines with ours on the same model: order on each rank, gradients, messages and bytes."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple
from unittest.mock import patch

import torch
import torch.distributed as dist
import typer
from shardlab import meter
from shardlab.pipeline_parallel.builders import interleaved, one_f_one_b
from shardlab.pipeline_parallel.communication import MessageBatch, communicate
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.execution import RankTimes, execute, measured
from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule, actions_of, num_stages
from shardlab.pipeline_parallel.simulation import peak_activations, simulate
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.pipeline_parallel.traces import to_trace
from shardlab.ranks.run import on_ranks
from start import import_megatron
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SEQUENCE, MICROBATCH = 16, 2
EQUAL = 1e-6  # gradients of the same weights, in float32


class Sizes(NamedTuple):
    """Microbatches m, chunks per rank v, hidden width h. batched: Megatron sends a slot's messages as one batch."""

    microbatches: int
    chunks: int
    hidden: int
    batched: bool = False

    def of_a_round(self, ranks: int) -> int:
        """Microbatches that go through one chunk before the next: p, or a number that divides them equally."""
        return self.microbatches // max(1, self.microbatches // ranks)


class Got(NamedTuple):
    """Results of one rank: Megatron's planned and executed order, gradients and bytes of both, and our times."""

    planned: list[int]
    executed: list[str]
    theirs: list[Tensor]
    ours: list[Tensor]
    their_bytes: float
    our_bytes: float
    times: RankTimes


class OnCpu(TorchFunctionMode):
    """Megatron's pipeline requests tensors on "cuda" by name; without a GPU this puts them on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        given = dict(kwargs or {})
        return function(*args, **given | ({"device": "cpu"} if given.get("device") == "cuda" else {}))


@contextmanager
def where_megatron_runs() -> Iterator[torch.device]:
    """This rank's device, its GPU or the CPU, with Megatron redirected to it."""
    if "nccl" in dist.get_backend_config():
        yield torch.device("cuda", torch.cuda.current_device())
        return
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.cuda, "current_device", lambda: "cpu"))
        stack.enter_context(OnCpu())
        yield torch.device("cpu")


class Stage(nn.Module):
    """One stage as Megatron expects it: its input is set from outside, and it records when it runs."""

    def __init__(self, number: int, sizes: Sizes, config, order: list[str]) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.number, self.config, self.order = number, config, order
        self.layers = nn.Sequential(nn.Linear(sizes.hidden, sizes.hidden), nn.GELU())
        self.arrived: Tensor | None = None
        self.model_type = None  # Megatron reads this from every model

    def set_input_tensor(self, tensors: list[Tensor | None] | Tensor | None) -> None:
        self.arrived = tensors[0] if isinstance(tensors, list) else tensors

    def forward(self, source: Tensor, microbatch: int) -> Tensor:
        self.order.append(str(Action(Kind.F, self.number, microbatch)))
        output = self.layers(source if self.arrived is None else self.arrived)
        output.register_hook(lambda _: self.order.append(str(Action(Kind.B, self.number, microbatch))))
        return output


def both(schedule: Schedule, sizes: Sizes) -> Got:
    """Run one step of Megatron's pipeline and one of our executor on this rank, from the same weights."""
    import_megatron()
    order: list[str] = []
    with where_megatron_runs() as device:
        stages = megatron_stages(sizes, order)
        batches = list(torch.randn(sizes.microbatches, SEQUENCE, MICROBATCH, sizes.hidden, device=device))
        for batch in batches:
            dist.broadcast(batch, 0)
        with meter.record() as their_bill:
            megatron_step([stage.to(device) for stage in stages], batches, sizes)
    theirs = take_gradients(stages)

    last = num_stages(schedule) - 1
    ours = {
        stage.number: ModuleStage(
            stage.layers,
            inputs=batches if stage.number == 0 else None,
            input_like=None if stage.number == 0 else batches[0],
            loss=(lambda output, _: output.square().mean()) if stage.number == last else None,
            loss_weight=1 / sizes.microbatches,
        )
        for stage in stages
    }
    execute(schedule, ours, group=dist.group.WORLD)  # the first step opens the connections
    take_gradients(stages)
    with meter.record() as our_bill:
        times = execute(
            schedule, ours, group=dist.group.WORLD, agreed=True
        )  # like Megatron, which does not compare schedules
    return Got(
        megatron_plan(sizes), order, theirs, take_gradients(stages), their_bill.sent_bytes, our_bill.sent_bytes, times
    )


def take_gradients(stages: list[Stage]) -> list[Tensor]:
    """Take the gradients off the parameters and move them to the CPU."""
    taken = [p.grad.cpu() for stage in stages for p in stage.parameters() if p.grad is not None]
    for stage in stages:
        stage.zero_grad(set_to_none=True)
    return taken


def megatron_stages(sizes: Sizes, order: list[str]) -> list[Stage]:
    """Create Megatron's groups, then this rank's stages r, r + p, r + 2p, ..."""
    from megatron.core import parallel_state
    from megatron.core.transformer import TransformerConfig

    rank, ranks = dist.get_rank(), dist.get_world_size()
    sizes_of_pipeline = {
        "pipeline_model_parallel_size": ranks,
        "virtual_pipeline_model_parallel_size": sizes.chunks if sizes.chunks > 1 else None,
    }
    parallel_state.initialize_model_parallel(**sizes_of_pipeline)
    config = TransformerConfig(
        num_layers=ranks * sizes.chunks,
        hidden_size=sizes.hidden,
        num_attention_heads=1,
        pipeline_dtype=torch.float32,
        microbatch_group_size_per_vp_stage=sizes.of_a_round(ranks),
        batch_p2p_comm=sizes.batched,
        overlap_p2p_comm=sizes.chunks > 1 and not sizes.batched,
        batch_p2p_sync=False,  # otherwise it calls torch.cuda.synchronize after each message
        **sizes_of_pipeline,
    )
    return [Stage(rank + ranks * chunk, sizes, config, order) for chunk in range(sizes.chunks)]


def megatron_step(stages: list[nn.Module], batches: list[Tensor], sizes: Sizes) -> None:
    """Megatron's own loop for these sizes: 1F1B or interleaved 1F1B."""
    from megatron.core.pipeline_parallel.schedules import get_forward_backward_func

    def forward_step(microbatches, stage):
        number, batch = next(microbatches)
        return stage(batch, number), lambda output: (output.square().mean(), {})

    get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=[iter(list(enumerate(batches))) for _ in stages],
        model=stages,
        num_microbatches=sizes.microbatches,
        seq_length=SEQUENCE,
        micro_batch_size=MICROBATCH,
        forward_only=False,
    )


def megatron_plan(sizes: Sizes) -> list[int]:
    """This rank's plan by Megatron's pure functions: chunk c+1 forward is c+1, backward is -(c+1)."""
    from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches, get_schedule_table
    from megatron.core.transformer.cuda_graphs import convert_schedule_table_to_order

    of_a_round = sizes.of_a_round(dist.get_world_size())
    _, _, warmup, _ = get_pp_rank_microbatches(sizes.microbatches, sizes.chunks, of_a_round)
    table = get_schedule_table(sizes.microbatches, sizes.chunks, of_a_round)
    return convert_schedule_table_to_order(warmup, sizes.chunks, table)


def in_chunks(schedule: Schedule, rank: int) -> list[int]:
    """Our order of a rank in Megatron's notation."""
    signs = {Kind.F: 1, Kind.B: -1}
    actions = [action for slot in schedule[rank] for action in actions_of(slot)]
    return [signs[action.kind] * (action.stage // len(schedule) + 1) for action in actions]


def sent_by(schedule: Schedule, rank: int, sizes: Sizes) -> int:
    """Bytes of the messages that a rank sends: fp32 activations and gradients."""
    batches = [step for step in communicate(schedule)[rank] if isinstance(step, MessageBatch)]
    messages = sum(message.source == rank for batch in batches for message in batch.messages)
    return messages * 4 * SEQUENCE * MICROBATCH * sizes.hidden


def verdict(apart: float, ranks: int, sizes: Sizes) -> str:
    """Whether the gradients are equal and, if not, why.

    On two ranks both neighbors are the same peer. A batch in Megatron lists sends and receives in the same order on
    both ranks, those of the previous rank first, so the peer mistakes a gradient for an activation. Megatron's trainer
    rejects these options (Megatron-LM, megatron/training/arguments.py); its library does not.
    """
    if apart < EQUAL:
        return "equal"
    if ranks == 2 and sizes.chunks > 1 and sizes.batched:
        return (
            "WRONG, because activations and gradients were swapped: on two ranks the previous and the next stage are "
            "the same peer, and a batch distinguishes their messages only by their order. Remove --batched"
        )
    return "WRONG"


def main(
    ranks: Annotated[
        int, typer.Option(min=2, max=16, help="Number of stages, p; torchrun's number takes precedence.")
    ] = 2,
    microbatches: Annotated[int, typer.Option(min=1, help="Number of microbatches, m.")] = 4,
    chunks: Annotated[int, typer.Option(min=1, help="Chunks per rank, v: 1 is 1F1B, more is interleaved.")] = 1,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden size, h.")] = 64,
    batched: Annotated[
        bool,
        typer.Option(
            "--batched", help="Let Megatron batch a slot's messages, which breaks 2 ranks with several chunks."
        ),
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Save our trace for analyze_timeline.")] = None,
) -> None:
    """Compare megatron-core's pipeline with ours on GPUs, on one GPU shared by all ranks, or on CPU ranks with gloo."""
    size = int(os.environ.get("WORLD_SIZE", ranks))
    sizes = Sizes(microbatches, chunks, hidden, batched)
    try:
        schedule = one_f_one_b(size, microbatches) if chunks == 1 else interleaved(size, microbatches, chunks)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if chunks > 1 and microbatches < size:
        raise typer.BadParameter(
            f"Megatron interleaves {size} or more microbatches over {size} ranks: use --microbatches {size}"
        )
    by_rank = on_ranks(both, schedule, sizes, ranks=size)
    if by_rank is None:
        return

    name = "1F1B" if chunks == 1 else "interleaved 1F1B"
    executed = sum([str(slot) for slot in slots] == got.executed for slots, got in zip(schedule, by_rank, strict=True))
    planned = sum(in_chunks(schedule, rank) == got.planned for rank, got in enumerate(by_rank))
    typer.echo(f"{name}, p = {size}, m = {microbatches}, v = {chunks}; megatron-core {import_megatron()}")
    typer.echo(f"ranks whose order equals ours: {executed} of {size} as executed, {planned} of {size} as planned")
    typer.echo(f"{'bytes sent by a rank':24}{'predicted':>12}{'ours':>12}{'Megatron':>12}")
    for rank, got in enumerate(by_rank):
        typer.echo(
            f"{f'rank {rank}':24}{sent_by(schedule, rank, sizes):12}{got.our_bytes:12.0f}{got.their_bytes:12.0f}"
        )
    pairs = [pair for got in by_rank for pair in zip(got.ours, got.theirs, strict=True)]
    apart = max((a - b).abs().max().item() for a, b in pairs)
    typer.echo(f"largest difference from Megatron's gradients: {apart:.1e}, {verdict(apart, size, sizes)}")
    clock = simulate(schedule, Durations(1.0, 1.0, 1.0))
    typer.echo(f"bubble at F = 1, B = 2: {clock.bubble:.1%}; activations held: {peak_activations(schedule)}")
    if trace is not None:
        trace.write_text(to_trace(measured(schedule, [got.times for got in by_rank])))


if __name__ == "__main__":
    typer.run(main)
