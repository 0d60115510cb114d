"""Tensor parallelism: an MLP cut by columns, then by rows; its two all-reduces of bsh, predicted beside real ranks."""

from typing import Annotated

import shardlab
import typer
from shardlab.costs.axis_traffic import BF16, tp_layer_bytes
from shardlab.costs.layout import Layout, check_layout
from shardlab.costs.model_zoo import find_model
from shardlab.costs.traffic import ring_all_reduce_bytes


def mlp_step(tokens: int, hidden: int, width: int) -> tuple[float, int, float]:
    """On each rank: bytes sent, all-reduces, and the largest difference to the whole MLP on one rank."""
    import torch
    import torch.distributed as dist
    from shardlab import meter

    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, first, second = torch.randn(tokens, hidden), torch.randn(hidden, width), torch.randn(width, hidden)
    columns, rows = first.chunk(size, dim=1)[rank], second.chunk(size, dim=0)[rank]
    whole = x.clone().requires_grad_()
    ((whole @ first).relu() @ second).sum().backward()

    with meter.record() as bill:
        mine = x.clone().requires_grad_()
        part = (mine @ columns).relu() @ rows
        result = part.detach().clone()
        dist.all_reduce(result)  # forward: sum over the ranks' rows
        part.sum().backward()
        assert mine.grad is not None and whole.grad is not None
        dist.all_reduce(mine.grad)  # backward: sum over the ranks' columns
    wrong = (result - (x @ first).relu() @ second).abs().max() / result.abs().max()
    wrong_gradient = (mine.grad - whole.grad).abs().max() / whole.grad.abs().max()
    return bill.sent_bytes, bill.count("all_reduce"), max(wrong.item(), wrong_gradient.item())


def main(
    ranks: Annotated[int, typer.Option(min=1, max=16, help="Tensor-parallel ranks t.")] = 2,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a microbatch, b times s.")] = 64,
    hidden: Annotated[int, typer.Option(min=1, help="h; the MLP is 4h wide.")] = 128,
    model: Annotated[str, typer.Option(help="A model whose traffic at t is predicted too.")] = "gpt3-175b",
) -> None:
    """Predict what one MLP's tensor parallelism sends, measure it on real ranks, and predict a large model's."""
    if 4 * hidden % ranks:
        raise typer.BadParameter(f"a width of {4 * hidden} cannot be split over {ranks} ranks: choose a divisor of it")
    try:
        large = find_model(model)
        check_layout(large, Layout(tp=ranks))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    by_rank = shardlab.run(mlp_step, tokens, hidden, 4 * hidden, ranks=ranks, timeout=120)

    typer.echo(f"{'MLP, forward and backward':28}{'predicted':>12}{'measured':>12}")
    typer.echo(f"{'all-reduces':28}{2:12}{by_rank[0][1]:12}")
    predicted = 2 * ring_all_reduce_bytes(ranks, 4 * tokens * hidden)
    typer.echo(f"{'bytes sent by a rank':28}{predicted:12.0f}{by_rank[0][0]:12.0f}")
    typer.echo(f"largest relative difference to one rank: {max(one[2] for one in by_rank):.1e}")
    layer = tp_layer_bytes(large, Layout(tp=ranks))
    typer.echo(
        f"{large.name}, t = {ranks}: {layer / 1e6:.1f} MB a layer, microbatch and direction, "
        f"{BF16 * large.sequence * large.hidden / 1e6:.1f} MB payload an all-reduce"
    )


if __name__ == "__main__":
    typer.run(main)
