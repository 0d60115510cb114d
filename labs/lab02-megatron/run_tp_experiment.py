"""Megatron's tensor parallelism: its own column and row layers on real ranks, beside one rank and the formula."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.ranks.launch import on_ranks
from start import import_megatron


class Got(NamedTuple):
    """What one rank measured: its calls, bytes sent, parameters held, and the largest difference to one rank."""

    kinds: list[str]
    sent_bytes: float
    parameters: int
    difference: float


def mlp_step(tokens: int, hidden: int, traces: str) -> Got:
    """ColumnParallelLinear, GELU, RowParallelLinear, forward and backward; then the same with whole weights."""
    import_megatron()
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer import TransformerConfig
    from shardlab import meter

    rank, size = dist.get_rank(), dist.get_world_size()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=size)
    config = TransformerConfig(
        num_layers=1,
        hidden_size=hidden,
        num_attention_heads=size,
        tensor_model_parallel_size=size,
        use_cpu_initialization=True,  # each rank draws the whole weight and keeps its part
    )
    torch.manual_seed(0)
    common = {"config": config, "init_method": torch.nn.init.xavier_normal_, "bias": True, "skip_bias_add": False}
    column = ColumnParallelLinear(hidden, 4 * hidden, gather_output=False, **common)
    row = RowParallelLinear(4 * hidden, hidden, input_is_parallel=True, **common)
    with torch.no_grad():
        for bias in (column.bias, row.bias):  # Megatron begins with zeros, which would hide a bias that is added twice
            bias.normal_()
        dist.broadcast(row.bias, 0)
    x = torch.randn(tokens, 1, hidden)
    dist.broadcast(x, 0)

    mine = x.clone().requires_grad_()
    with profiled(traces, rank), meter.record() as bill:
        output = row(torch.nn.functional.gelu(column(mine)[0]))[0]
        output.square().mean().backward()

    twin, shares = whole_layers(column, row)
    source = x.clone().requires_grad_()
    expected = twin(source)
    expected.square().mean().backward()
    pairs = [(output, expected), (mine.grad, source.grad)]
    for parameter, whole, axis in shares:
        share = whole.grad if axis is None else whole.grad.chunk(size, dim=axis)[rank]
        pairs.append((parameter.grad, share))
    difference = max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)
    return Got(bill.kinds, bill.sent_bytes, sum(p.numel() for p, _, _ in shares), difference)


def whole_layers(column, row):
    """The same MLP with whole weights, and for each of this rank's parameters the whole one and the axis of the cut."""
    import torch
    import torch.distributed as dist

    size, hidden = dist.get_world_size(), row.bias.numel()
    twin = torch.nn.Sequential(
        torch.nn.Linear(hidden, 4 * hidden), torch.nn.GELU(), torch.nn.Linear(4 * hidden, hidden)
    )
    first, second = twin[0], twin[2]
    shares = [(column.weight, first.weight, 0), (column.bias, first.bias, 0), (row.weight, second.weight, 1)]
    for parameter, whole, axis in shares:
        parts = [torch.empty_like(parameter) for _ in range(size)]
        dist.all_gather(parts, parameter.detach().contiguous())
        whole.data = torch.cat(parts, dim=axis)
    second.bias.data = row.bias.detach().clone()
    return twin, [*shares, (row.bias, second.bias, None)]


def profiled(folder: str, rank: int):
    """torch.profiler around the step, if a folder is given; `analyze_timeline.py` reads what it writes."""
    from torch.profiler import ProfilerActivity, profile

    if not folder:
        return nullcontext()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would print when it begins and ends
    return profile(
        activities=[ProfilerActivity.CPU],
        on_trace_ready=lambda done: done.export_chrome_trace(f"{folder}/rank{rank}.json"),
    )


def main(
    ranks: Annotated[int, typer.Option(min=1, max=16, help="Tensor-parallel ranks t; torchrun's number wins.")] = 2,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a microbatch, b times s.")] = 64,
    hidden: Annotated[int, typer.Option(min=1, help="h; the MLP is 4h wide.")] = 128,
    profile: Annotated[Path | None, typer.Option(help="Folder for torch.profiler's traces, one a rank.")] = None,
) -> None:
    """Predict the bytes of an MLP under tensor parallelism; measure them on megatron-core's own layers, with gloo."""
    if 4 * hidden % ranks:
        raise typer.BadParameter(f"a width of {4 * hidden} cannot be split over {ranks} ranks: choose a divisor of it")
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    by_rank = on_ranks(mlp_step, tokens, hidden, str(profile.resolve()) if profile else "", ranks=ranks, gpus=False)
    if by_rank is None:
        return
    size, first = len(by_rank), by_rank[0]
    payload = 4 * tokens * hidden
    parameters = (4 * hidden * hidden + 4 * hidden + hidden * 4 * hidden) // size + hidden

    typer.echo(f"{f'megatron-core {import_megatron()}, t = {size}':28}{'predicted':>12}{'measured':>12}")
    typer.echo(f"{'all-reduces':28}{2 if size > 1 else 0:12}{first.kinds.count('all_reduce'):12}")
    typer.echo(f"{'bytes sent by a rank':28}{2 * ring_all_reduce_bytes(size, payload):12.0f}{first.sent_bytes:12.0f}")
    typer.echo(f"{'parameters on a rank':28}{parameters:12}{first.parameters:12}")
    typer.echo(f"largest relative difference to one rank: {max(one.difference for one in by_rank):.1e}")


if __name__ == "__main__":
    typer.run(main)
