"""Compare DDP and ZeRO with PyTorch's versions, and DeepSpeed's if installed: states, peak, bytes sent, seconds."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from report import COURSE, BatchSize, Device, Hidden, Layers, On, Ranks, Steps, sizes

OURS = {"DDP": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3}
PEERS = ("torch DDP", "torch FSDP2")
DEEPSPEED = {"DeepSpeed 1": 1, "DeepSpeed 2": 2, "DeepSpeed 3": 3}  # if it is installed


def measure(name: str, config, text, steps: int, batch: int, device: str):
    """On each rank: train with one of ours, PyTorch's or DeepSpeed's."""
    from shardlab.data_parallel.experiment import build, train

    if name in OURS:
        engine = build(OURS[name], config, None, device=device)
    else:
        engine = (build_deepspeed if name in DEEPSPEED else build_peer)(name, config, device)
    return train(engine, config, text, steps=steps, batch=batch)


def build_peer(name: str, config, device: str):
    """The same model and optimizer with PyTorch's classes."""
    import torch
    from shardlab.data_parallel.experiment import plain_engine
    from shardlab.model.gpt import GPT
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = GPT(config).to(device)
    if name == "torch DDP":
        model = DistributedDataParallel(model)
    else:
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return plain_engine(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def build_deepspeed(name: str, config, device: str):
    """The same model and optimizer under DeepSpeed. Its states are internal and reported as zero."""
    import deepspeed  # type: ignore[import-not-found]
    import torch
    from shardlab.data_parallel.experiment import Engine
    from shardlab.meter import ModelStates
    from shardlab.model.gpt import GPT

    torch.manual_seed(0)
    model = GPT(config).to(device)
    options = {
        "train_micro_batch_size_per_gpu": 1,  # required but unused: we provide the batches
        "zero_optimization": {"stage": DEEPSPEED[name]},
        "gradient_clipping": 0.0,  # the default clips to a norm of 1
        "zero_force_ds_cpu_optimizer": False,
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    deepspeed.init_distributed(dist_backend="nccl" if device == "cuda" else "gloo")
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=options)
    return Engine(engine, engine, lambda: ModelStates(0, 0, 0), lambda: list(engine.module.parameters()))


def draw(table: dict[str, list], path: Path, ranks: int) -> str:
    """Draw the states a rank holds above what it sends; saves the figure and returns its description."""
    from matplotlib.figure import Figure
    from shardlab import figures

    picture = Figure(figsize=(7, 0.8 * len(table) + 1), layout="constrained")
    upper, lower = picture.subplots(2)
    held = {name: float(by_rank[0].held.total) for name, by_rank in table.items()}
    sent = {name: by_rank[0].sent_bytes for name, by_rank in table.items()}
    words = figures.draw_bars(upper, held, title=f"States held by one of {ranks} ranks after the backward")
    words += "\n" + figures.draw_bars(lower, sent, title="Sent per step")
    for ax in (upper, lower):
        ax.spines[["top", "right"]].set_visible(False)
    picture.savefig(path, dpi=120)
    return words


def main(
    ranks: Ranks = 2,
    layers: Layers = 4,
    hidden: Hidden = 128,
    steps: Steps = 5,
    batch: BatchSize = 4,
    device: On = Device.CPU,
    figure: Annotated[Path | None, typer.Option(help="Save the comparison as a figure.")] = None,
) -> None:
    """Train the same small GPT in six ways on the same batches and compare them in one table."""
    from shardlab.model.text import read_text
    from shardlab.ranks.run import on_ranks

    config, on_gpu = sizes(layers, hidden), device == Device.CUDA
    text = read_text(COURSE / "docs")  # read once, so that all train on the same text even if a page changes
    found = {
        name: on_ranks(measure, name, config, text, steps, batch, str(device), ranks=ranks, timeout=300, gpus=on_gpu)
        for name in (*OURS, *PEERS, *(DEEPSPEED if find_spec("deepspeed") else ()))
    }
    table = {name: by_rank for name, by_rank in found.items() if by_rank is not None}
    if not table:  # a torchrun rank that should not print
        return
    typer.echo(
        f"{'':12}{'states, MB':>12}{'peak, MB':>10}{'sent, MB':>10}"
        f"{'calls':>7}{'s per step':>12}{'waiting':>9}{'last loss':>11}"
    )
    for name, by_rank in table.items():
        one = by_rank[0]
        seconds = max(rank.seconds for rank in by_rank)
        waiting = "unseen" if name not in OURS or on_gpu else f"{one.exposed:.3f}"  # PyTorch's own classes wait in C++
        states = "unseen" if name in DEEPSPEED else f"{one.held.total / 1e6:.2f}"
        typer.echo(
            f"{name:12}{states:>12}{one.peak_bytes / 1e6:10.2f}{one.sent_bytes / 1e6:10.2f}"
            f"{one.num_calls:7}{seconds:12.3f}{waiting:>9}{one.losses[-1]:11.4f}"
        )
    if figure is not None:
        seen = {name: by_rank for name, by_rank in table.items() if name not in DEEPSPEED}
        typer.echo(draw(seen, figure, len(table["DDP"])))


if __name__ == "__main__":
    typer.run(main)
