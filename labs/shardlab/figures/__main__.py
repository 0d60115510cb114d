"""Redraw the figures in docs/images: python -m shardlab.figures [folder]."""

import sys
from pathlib import Path

from shardlab.costs import traffic
from shardlab.figures.bars import draw_bars, draw_traffic
from shardlab.figures.labels import written_bytes, written_seconds
from shardlab.figures.maps import draw_groups, draw_own_trainer
from shardlab.figures.measured import draw_ring_against_tree
from shardlab.figures.page import new_axes, png
from shardlab.figures.profile import draw_profile, kept_traces
from shardlab.figures.ring import draw_ring_step
from shardlab.figures.timeline import draw_timeline
from shardlab.mesh.axes import Mesh
from shardlab.own.uses import rows
from shardlab.pipeline_parallel import builders

GRADIENT_BYTES = 14e9  # 7B parameters in bf16
LINK_BYTES_PER_SECOND = 50e9


def draw_problem(ax) -> str:
    """Week 1's problem in numbers: a sum through rank 0 compared with a ring, on 8 ranks."""
    sent, received = traffic.naive_all_reduce_bytes(8, GRADIENT_BYTES)
    ring = traffic.ring_all_reduce_bytes(8, GRADIENT_BYTES)
    speed = LINK_BYTES_PER_SECOND
    return draw_bars(
        ax,
        {"rank 0 receives": received, "rank 0 sends": sent, "in a ring, each rank sends": ring},
        title=f"Adding up {written_bytes(GRADIENT_BYTES)} of gradients on 8 GPUs: rank 0 is the bottleneck",
        notes=[written_seconds(seconds) for seconds in (received / speed, sent / speed, ring / speed)],
    )


def draw_own(ax) -> str:
    """Which week writes and uses each module of a learner's own trainer."""
    return draw_own_trainer(ax, rows(), title="Week 15 assembles the functions of fourteen weeks into a trainer")


def draw_traces(ax, week: str, name: str) -> str:
    """A training step from that week, on ranks that share one H200."""
    return draw_profile(ax, kept_traces(week), name=name)


def main(folder: Path) -> None:
    """Write every figure as a PNG file into `folder`, and print its sentence for use as alt text."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "rank0-bottleneck": (7.0, 2.0, draw_problem),
        "traffic": (7.0, 3.6, lambda ax: draw_traffic(ax, 8, GRADIENT_BYTES)),
        "ring-step": (6.5, 3.9, lambda ax: draw_ring_step(ax, 4, 1)),
        "pipeline-1f1b": (9.0, 2.6, lambda ax: draw_timeline(ax, builders.one_f_one_b(4, 8), name="1F1B", until=33)),
        "pipeline-zb-h1": (9.0, 2.6, lambda ax: draw_timeline(ax, builders.zb_h1(4, 8), name="ZB-H1", until=33)),
        "pipeline-dualpipe": (10.0, 3.9, lambda ax: draw_timeline(ax, builders.dualpipe(8, 20), name="DualPipe")),
        "profile-ddp": (9.0, 2.6, lambda ax: draw_traces(ax, "week02", "DDP on one H200")),
        "profile-1f1b": (9.0, 3.9, lambda ax: draw_traces(ax, "week07", "1F1B on one H200")),
        "profile-dualpipe-v": (9.0, 4.9, lambda ax: draw_traces(ax, "week13", "DualPipeV on one H200")),
        "groups-of-rank-37": (8.2, 3.0, lambda ax: draw_groups(ax, Mesh(tp=8, pp=4, dp=2), 37)),
        "own-trainer": (8.2, 4.4, draw_own),
        "ring-against-tree": (6.5, 3.2, lambda ax: draw_ring_against_tree(ax, 8, 77e-6, 1 / 227e9)),
    }
    for name, (width, height, draw) in figures.items():
        figure, ax = new_axes(width, height)
        sentence = draw(ax)
        (folder / f"{name}.png").write_bytes(png(figure))
        print(f"{name}.png  {sentence}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
