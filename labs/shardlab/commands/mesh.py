"""The command `shardlab mesh`: a rank's coordinates and its group on every axis. Needs no torch."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shardlab.mesh.axes import Mesh

SHOWN = 8  # how many ranks of a group to print


def mesh(
    rank: Annotated[int, typer.Option("--rank", help="Rank whose groups to show.")] = 0,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline parallel size.")] = 1,
    dp: Annotated[int, typer.Option("--dp", help="Data parallel size.")] = 1,
    cp: Annotated[int, typer.Option("--cp", help="Context parallel size.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Expert parallel size, within the ranks of tp, cp and dp.")] = 1,
    etp: Annotated[
        int | None, typer.Option("--etp", help="Tensor parallel size of the experts [default: same as --tp].")
    ] = None,
    order: Annotated[str, typer.Option("--order", help="Order of the axes, innermost first.")] = "tp-cp-ep-dp-pp",
    per_node: Annotated[int, typer.Option("--per-node", min=1, help="GPUs per node.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a rank's coordinates on the axes, its group on each axis and the link that this group needs."""
    from shardlab.mesh.axes import Mesh

    try:
        built = Mesh(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, etp=etp, order=order)
        rows = groups_of(built, rank, per_node)
        place = built.coordinates(rank)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="the sizes") from None
    if json:
        typer.echo(json_format.dumps({"world": built.world, "rank": rank, "coordinates": place, "groups": rows}))
        return
    where = ", ".join(f"{name} {place[name]} of {size}" for name, size in built.dense.sizes.items())
    typer.echo(f"rank {rank} of {built.world}, on node {rank // per_node}: {where}")
    for row in rows:
        nodes = f"{row['nodes']} node{'s' * (row['nodes'] > 1)}"
        typer.echo(f"{row['axes']:6} {_shortened(row['ranks']):44} {nodes}, {row['link']}")


def groups_of(built: Mesh, rank: int, per_node: int) -> list[dict]:
    """A rank's groups by axis, with nodes and link; expert groups only if experts have a separate mesh."""
    from shardlab.mesh.nodes import position

    names = [("tp",), ("cp",), ("dp",), ("pp",), ("dp", "cp")]
    if built.counts_experts_apart:
        names += [("etp",), ("ep",), ("edp",)]
    rows = []
    for axes in names:
        ranks = built.group_of(rank, *axes)
        where = position(ranks, per_node)
        rows.append({"axes": "-".join(axes), "ranks": ranks, "nodes": where.num_nodes, "link": where.link})
    return rows


def _shortened(ranks: list[int]) -> str:
    if len(ranks) <= SHOWN:
        return " ".join(map(str, ranks))
    return f"{' '.join(map(str, ranks[: SHOWN - 3]))} … {ranks[-1]} ({len(ranks)} ranks)"
