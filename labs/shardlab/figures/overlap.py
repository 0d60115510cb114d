"""A data-parallel step as two lanes: computation, and the messages sent meanwhile."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from shardlab.costs.overlap import Transfer, efficiency, exposed_seconds
from shardlab.figures.palette import PALETTE, text_colour
from shardlab.figures.units import written_seconds


def draw_overlap(
    ax: Axes,
    forward_seconds: float,
    backward_seconds: Sequence[float],
    timeline: Sequence[Transfer],
    *,
    title: str,
    limit_seconds: float | None = None,
) -> str:
    """Draw a step: forward and backward on top, the buckets below, gray where a lane is idle.

    Each layer's backward has the layer's number and is drawn as two halves; its gradient is ready after both.

    backward_seconds: one per layer, in the order of the backward. timeline: when each bucket is sent.
    limit_seconds: where the time axis ends, to compare figures. Returns the sentence.
    """
    compute = forward_seconds + sum(backward_seconds)
    exposed = exposed_seconds(compute, timeline)
    for lane in (0, 1):
        ax.add_patch(Rectangle((0, lane - 0.4), compute + exposed, 0.8, facecolor=PALETTE["idle"], linewidth=0))
    _box(ax, 0, 0.0, forward_seconds, "F", "forward")
    begin = forward_seconds
    for layer, seconds in zip(reversed(range(len(backward_seconds))), backward_seconds, strict=True):
        _box(ax, 0, begin, begin + seconds, str(layer), "backward")
        half = {
            "facecolor": PALETTE["weights"],
            "linewidth": 0,
        }  # no line between the halves, because nothing is sent between them
        ax.add_patch(Rectangle((begin + seconds / 2, -0.4), seconds / 2, 0.8, **half))
        ax.add_patch(Rectangle((begin, -0.4), seconds, 0.8, fill=False, edgecolor="white", linewidth=0.6))
        begin += seconds
    for number, bucket in enumerate(timeline):
        _box(ax, 1, bucket.begin, bucket.end, str(number), "communication")

    share = efficiency(compute, exposed)
    ax.set_xlim(0, limit_seconds or compute + exposed)
    ax.set_ylim(1.5, -0.5)
    ax.set_yticks([0, 1], ["compute: layer", "link: bucket"], fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.xaxis.set_major_formatter(lambda value, _: written_seconds(value) if value else "0")
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.set_title(f"{title}: {share:.0%} efficiency", loc="left", fontsize=10)
    counted = f"{len(timeline)} bucket{'' if len(timeline) == 1 else 's'}"
    return (
        f"In words: {title}: {written_seconds(compute)} of compute, {counted}, "
        f"{written_seconds(exposed)} of communication exposed, efficiency {share:.1%}."
    )


def _box(ax: Axes, lane: int, begin: float, end: float, text: str, colour: str) -> None:
    fill = PALETTE[colour]
    ax.add_patch(Rectangle((begin, lane - 0.4), end - begin, 0.8, facecolor=fill, edgecolor="white", linewidth=0.6))
    ax.text((begin + end) / 2, lane, text, ha="center", va="center", fontsize=7, color=text_colour(fill))
