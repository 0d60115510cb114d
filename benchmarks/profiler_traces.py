"""Record traces by torch's profiler of one step of weeks 2, 7 and 13 on every rank, to compare with the schedules.

`python -m benchmarks.profiler_traces FOLDER [cpu|cuda]` writes `week07-rank0.json.gz` and so on, for Perfetto. On a
GPU, the ranks share it.
`python -m benchmarks.profiler_traces keep` copies to the package those parts of the traces that the pages draw.
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import shardlab
import torch
import torch.distributed as dist
from shardlab.figures.profile import KEPT
from shardlab.meter.profiler import trace_of_step
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from torch import Tensor, nn

from benchmarks.data_parallel import our_ddp
from benchmarks.pipelines import by_us

WIDTH = {"cpu": 512, "cuda": 4096}
CONFIG = {
    "cpu": GPTConfig(layers=4, hidden=256, heads=8, sequence=128),
    "cuda": GPTConfig(layers=8, hidden=1024, heads=16, sequence=512),
}
MICROBATCHES, BLOCKS = 8, 8
TRACES = Path(__file__).parent / "results" / "traces_h200"


class Block(nn.Module):
    """x + gelu(W x)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.gelu(self.linear(x))


def week02(device: str) -> Callable[[], object]:
    """Build a step of data parallelism: buckets are sent while the backward runs."""
    config = CONFIG[device]
    torch.manual_seed(0)
    step = our_ddp(GPT(config).to(device))
    tokens = torch.randint(config.vocabulary, (4, config.sequence + 1)).to(device)
    return lambda: step(tokens[:, :-1], tokens[:, 1:])


def week07(device: str) -> Callable[[], object]:
    """1F1B."""
    return pipeline("1f1b", device)


def week13(device: str) -> Callable[[], object]:
    """Build a step of DualPipeV: a forward overlaps the backward of another microbatch."""
    return pipeline("dualpipe-v", device)


def pipeline(name: str, device: str) -> Callable[[], object]:
    """Build a step of this schedule on all ranks."""
    ranks, width = dist.get_world_size(), WIDTH[device]
    schedule = BUILDERS[name](ranks, MICROBATCHES)
    stages, dtype = num_stages(schedule), torch.bfloat16 if device == "cuda" else torch.float32
    modules: dict[int, nn.Module] = {
        stage: nn.Sequential(*(Block(width) for _ in range(BLOCKS // stages))).to(device, dtype)
        for stage in stages_of_rank(schedule, dist.get_rank())
    }
    batch = torch.randn(MICROBATCHES * width, width, device=device, dtype=dtype)
    return by_us(schedule, modules, stages, batch, microbatches=MICROBATCHES)


def traced(build: Callable[[str], Callable[[], object]], device: str) -> bytes:
    """Return one step of this rank as a Chrome trace."""
    torch.set_num_threads(1)
    return trace_of_step(build(device))


def main(folder: str, device: str = "cpu") -> None:
    """Write the traces of all ranks."""
    for build, ranks in ((week02, 2), (week07, 4), (week13, 4)):
        transport = "nccl-shared" if device == "cuda" else "gloo"
        by_rank = shardlab.run(traced, build, device, ranks=ranks, transport=transport, observe=False, timeout=120)
        for rank, trace in enumerate(by_rank):
            path = Path(folder) / f"{build.__name__}-rank{rank}.json.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(trace)
            print(f"{path}: {len(trace):,} bytes")


def kernels_of(trace: bytes) -> bytes:
    """Reduce a GPU's trace to its kernels, their launches, and the ranges that mark backward and optimizer."""
    whole = json.loads(gzip.decompress(trace))
    kernels = [event for event in whole["traceEvents"] if event.get("cat") == "kernel"]
    correlations = {event["args"]["correlation"] for event in kernels}

    def launches(event: dict) -> bool:
        return event.get("cat") in ("cuda_runtime", "cuda_driver") and event["args"]["correlation"] in correlations

    events = []
    for event in whole["traceEvents"]:
        if event in kernels or launches(event):
            args = {key: value for key, value in event["args"].items() if key in ("correlation", "stream")}
            events.append(event | {"args": args})
        elif event.get("ph") == "M" or str(event["name"]).startswith(("autograd::engine", "Optimizer.step")):
            events.append({key: value for key, value in event.items() if event.get("ph") == "M" or key != "args"})
    kept = {"displayTimeUnit": "ms", "traceEvents": events}
    return gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0)


def keep() -> None:
    """Write the reduced copies that a notebook draws; the same traces give the same file."""
    with zipfile.ZipFile(KEPT, "w") as kept:
        for path in sorted(TRACES.glob("week*.json.gz")):
            kept.writestr(zipfile.ZipInfo(path.name), kernels_of(path.read_bytes()))
    print(f"{KEPT}: {KEPT.stat().st_size:,} bytes")


if __name__ == "__main__":
    keep() if sys.argv[1:] == ["keep"] else main(*sys.argv[1:])
