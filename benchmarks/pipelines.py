"""Race pipeline schedules on four ranks against torch.distributed.pipelining, with sleeping stages and real compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import shardlab
import torch
import torch.distributed as dist
from shardlab.mesh.emulated import EmulatedDevice
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.emulated import emulated_stages
from shardlab.pipeline_parallel.execution import execute, measured
from shardlab.pipeline_parallel.schedule import Schedule, num_stages, stages_of_rank
from shardlab.pipeline_parallel.simulation import simulate
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import Tensor, nn

from benchmarks.row import Row, at_least_times, at_most

RANKS, MICROBATCHES, ROUNDS = 4, 8, 3
UNIT = 0.03  # seconds for each of F, I and W
WIDTH, ROWS = 384, 192  # for the computing stages
ASLEEP = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe", "dualpipe-v"]
TORCHS = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zb-h1": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipe-v": "ScheduleDualPipeV",
}
COMPUTED = ["gpipe", "1f1b", "interleaved", "zbv", "dualpipe-v"]


class _Sleep(torch.autograd.Function):
    """Returns its input; the backward keeps the device busy for a while."""

    @staticmethod
    def forward(ctx, tensor: Tensor, device: EmulatedDevice, seconds: float) -> Tensor:
        ctx.device, ctx.seconds = device, seconds
        return tensor.clone()

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        ctx.device.work(ctx.seconds)
        return gradients[0], None, None


class Sleeping(nn.Module):
    """Sleeps UNIT in the forward, and for the input's and the weight's gradient: two branches that torch can split."""

    def __init__(self, device: EmulatedDevice) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.device = device

    def forward(self, x: Tensor) -> Tensor:
        self.device.work(UNIT)
        return _Sleep.apply(x, self.device, UNIT) + _Sleep.apply(self.weight, self.device, UNIT)


def layers(stage: int) -> nn.Module:
    """Return a stage that computes."""
    torch.manual_seed(stage)
    return nn.Sequential(*[part for _ in range(3) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())])


def by_torch(
    name: str, modules: dict[int, nn.Module], stages: int, batch: Tensor, microbatches: int = MICROBATCHES
) -> Callable[[], object]:
    """Run one step of torch's schedule of that name."""
    from torch.distributed.pipelining import PipelineStage, schedules

    pipeline = [PipelineStage(module, stage, stages, batch.device) for stage, module in modules.items()]
    single = name in ("gpipe", "1f1b")
    runtime = getattr(schedules, TORCHS[name])(
        pipeline[0] if single else pipeline, microbatches, loss_fn=lambda output, _: output.square().mean()
    )
    return lambda: runtime.step(*([batch] if 0 in modules else []), target=batch)


def by_us(
    schedule: Schedule, modules: dict[int, nn.Module], stages: int, batch: Tensor, microbatches: int = MICROBATCHES
) -> Callable[[], object]:
    """Run one step of our schedule with the same modules."""
    batches = list(batch.chunk(microbatches))
    held = {
        stage: ModuleStage(
            module,
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=(lambda output, _: output.square().mean()) if stage == stages - 1 else None,
            loss_weight=1 / microbatches,
        )
        for stage, module in modules.items()
    }
    return lambda: execute(schedule, held, group=None)


def seconds_of(step: Callable[[], object]) -> float:
    """Return the seconds of one step on this rank, after a common start."""
    dist.barrier()
    began = time.monotonic()
    step()
    return time.monotonic() - began


def asleep(name: str) -> tuple[list, list[float]]:
    """Return slot times of our steps and seconds of torch's, alternating; the first step sets up connections."""
    rank, durations = dist.get_rank(), Durations(UNIT, UNIT, UNIT)
    schedule = BUILDERS[name](RANKS, MICROBATCHES)
    peer = None
    if name in TORCHS:
        device = EmulatedDevice()
        modules: dict[int, nn.Module] = {stage: Sleeping(device) for stage in stages_of_rank(schedule, rank)}
        peer = by_torch(name, modules, num_stages(schedule), torch.ones(MICROBATCHES, 1))
    ours, theirs = [], []
    for _ in range(ROUNDS + 1):
        dist.barrier()
        ours.append(execute(schedule, emulated_stages(schedule, rank, durations), group=None))
        theirs.append(seconds_of(peer) if peer else 0.0)
    return ours[1:], theirs[1:]


def awake(name: str) -> list[tuple[float, float]]:
    """Return seconds of (ours, torch's) with real compute, alternating."""
    rank, batch = dist.get_rank(), torch.ones(MICROBATCHES * ROWS, WIDTH)
    schedule = BUILDERS[name](RANKS, MICROBATCHES)
    stages = num_stages(schedule)
    ours, theirs = ({stage: layers(stage) for stage in stages_of_rank(schedule, rank)} for _ in range(2))
    steps = by_us(schedule, ours, stages, batch), by_torch(name, theirs, stages, batch)
    rounds = [(seconds_of(steps[0]), seconds_of(steps[1])) for _ in range(4 * ROUNDS)]
    return rounds[2:]


def measure() -> list[Row]:
    """Return rows for every schedule: the makespan relative to simulation, and the speed relative to torch's."""
    rows = []
    for name in ASLEEP:
        schedule = BUILDERS[name](RANKS, MICROBATCHES)
        by_rank = shardlab.run(asleep, name, ranks=RANKS, transport="gloo", observe=False, timeout=300)
        predicted = simulate(schedule, Durations(UNIT, UNIT, UNIT)).makespan
        ours = median(
            measured(schedule, [times for times in ranks]).makespan / predicted
            for ranks in zip(*[one for one, _ in by_rank], strict=True)
        )
        theirs = median(max(ranks) / predicted for ranks in zip(*[other for _, other in by_rank], strict=True))
        rows.append(at_most(f"{name}, sleeping stages: makespan / simulated", ours, 1.02, theirs or None))
    for name in COMPUTED:
        by_rank = shardlab.run(awake, name, ranks=RANKS, transport="gloo", observe=False, timeout=300)
        rounds = [tuple(map(max, zip(*ranks, strict=True))) for ranks in zip(*by_rank, strict=True)]
        ours, theirs = (median(seconds) for seconds in zip(*rounds, strict=True))
        rows.append(at_least_times(f"{name}, real compute vs. torch's, s", ours, theirs, 1.0))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(row, flush=True)
