"""Tokens per second by number of ranks: measured, and the limit that the machine's cores set."""

import os
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from shardlab.figures.palette import MEASURED, PALETTE


def draw_throughput(ax: Axes, measured: Mapping[int, float], *, cores: int = 0) -> str:
    """Draw tokens per second by number of ranks, where each rank has its own batch; returns the sentence.

    measured: ranks -> tokens of all ranks per second. cores: more ranks than cores take turns; default: this machine's.
    Raises ValueError without a measurement for one rank, with which all others are compared.
    """
    if 1 not in measured or min(measured.values()) <= 0:
        raise ValueError(f"also measure one rank, with more than 0 tokens per second; got {dict(measured)}")
    cores = cores or os.cpu_count() or 1
    ranks, values = zip(*sorted(measured.items()), strict=True)
    allowed = [measured[1] * min(number, cores) for number in ranks]
    ax.plot(ranks, [measured[1] * number for number in ranks], "--", color=PALETTE["communication"], linewidth=1)
    ax.plot(ranks, allowed, "-", color=PALETTE["communication"], linewidth=1)
    ax.plot(ranks, values, "o-", color=MEASURED, linewidth=1.5)
    for text, last, colour in (
        ("ranks times one", measured[1] * ranks[-1], PALETTE["communication"]),
        (f"{cores} core{'' if cores == 1 else 's'}", allowed[-1], PALETTE["communication"]),
        ("measured", values[-1], MEASURED),
    ):
        ax.annotate(text, (ranks[-1], last), (6, -3), textcoords="offset points", fontsize=8, color=colour)
    ax.set_xlim(0.8, ranks[-1] * 1.3)
    ax.set_ylim(0, None)
    ax.xaxis.set_major_locator(FixedLocator(list(ranks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("ranks", fontsize=8)
    ax.set_ylabel("tokens per second", fontsize=8)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    times = values[-1] / measured[1]
    ax.set_title(f"{ranks[-1]} ranks train {times:.1f} times as fast as one here", loc="left", fontsize=10)
    more = ", ".join(
        f"{number} ranks {rate / measured[1]:.2f} times as many"
        for number, rate in zip(ranks[1:], values[1:], strict=True)
    )
    return f"In words: on {cores} cores one rank trains {measured[1]:,.0f} tokens per second; {more}."
