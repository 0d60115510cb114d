"""Plans: time against memory with the Pareto front, and one layout with sliders for its memory, bytes and step time."""

import html
from collections.abc import Mapping, Sequence
from itertools import starmap

import ipywidgets as widgets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.clock.step import StepSeconds
from shardlab.costs.hardware import ACCELERATORS, GIB, Accelerator
from shardlab.costs.layout import Layout, check_layout, with_global_batch
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.model import Transformer
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import GRADIENT_BYTES, Plan, pareto, seconds_of, usable_bytes
from shardlab.figures.bars import draw_bars, draw_memory
from shardlab.figures.labels import written_seconds
from shardlab.figures.page import as_html, new_axes
from shardlab.figures.palette import PALETTE, text_colour
from shardlab.study.still import with_still

PARTS = {  # of a step, in stacking order: color, and a hatch for readers who cannot see colors
    "compute": ("forward", ""),
    "tensor": ("communication", "///"),
    "context": ("communication", "xx"),
    "expert": ("communication", "\\\\\\"),
    "boundaries": ("communication", ".."),
    "data": ("communication", ""),
    "bubble": ("idle", ""),
    "optimizer": ("optimizer", ".."),
}
MOST_LETTERS = 6


def draw_pareto(ax: Axes, plans: Sequence[Plan], *, title: str = "", limit: float | None = None) -> str:
    """Draw every plan as a dot, with memory on the x axis and time on the y axis, and the Pareto front.

    limit: usable bytes of a GPU, drawn as a line. The fastest plan, the smallest plan and some between them have
    letters that are explained next to the figure. Returns the sentence. Raises ValueError for no plans.
    """
    if not plans:
        raise ValueError("give at least one plan")
    front = pareto(plans)
    fastest, smallest = front[0], front[-1]
    title = title or (
        f"{1 - smallest.memory.total / fastest.memory.total:.0%} less memory costs "
        f"{smallest.step.total / fastest.step.total - 1:.0%} more time"
    )
    ax.scatter(*_points(plans), s=9, color=PALETTE["parameters"], alpha=0.35, linewidths=0, label="a layout that fits")
    xs, ys = _points(front)
    ax.step(xs, ys, where="pre", color=PALETTE["communication"], linewidth=1)
    ax.scatter(xs, ys, s=26, color=PALETTE["communication"], zorder=3, label="Pareto front")
    named = {chr(ord("A") + place): one for place, one in enumerate(_some(front, MOST_LETTERS))}
    for letter, one in named.items():
        place = (one.memory.total / GIB, one.step.total)
        ax.annotate(letter, place, (-4, -11), textcoords="offset points", fontsize=9, ha="right")
    if limit is not None:
        ax.axvline(limit / GIB, color="black", linestyle="--", linewidth=1)
        place = {"xycoords": ax.get_xaxis_transform(), "xytext": (-3, -2), "textcoords": "offset points"}
        ax.annotate(f"usable, {limit / GIB:.0f} GiB", (limit / GIB, 1.0), ha="right", va="top", fontsize=8, **place)
    listed = "\n".join(f"{letter}  {layout_text(one.layout)}" for letter, one in named.items())
    ax.text(1.02, 1.0, listed, transform=ax.transAxes, va="top", fontsize=8, linespacing=1.6)
    ax.set_yscale("log")
    ax.set_yticks(ticks := _ticks(ys[0], max(_points(plans)[1])), [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(left=0)
    ax.set_xlabel("GiB on the fullest rank", fontsize=8)
    ax.set_ylabel("seconds per step", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    ax.set_title(title, loc="left", fontsize=10)
    told = "; ".join(
        f"{letter} {layout_text(one.layout)}: {one.memory.total / GIB:.1f} GiB, {written_seconds(one.step.total)}"
        for letter, one in named.items()
    )
    return f"In words: {title}. {len(plans)} layouts fit, {len(front)} are on the Pareto front. {told}."


def layout_text(layout: Layout) -> str:
    """A layout as a short text: sizes above 1, then its other options. 1F1B is the default and not written."""
    sizes = (("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp), ("cp", layout.cp), ("ep", layout.ep))
    words = [f"{name}{size}" for name, size in sizes if size > 1]
    words += [f"v{layout.virtual}"] if layout.virtual > 1 else []
    words += [f"b{layout.microbatch}"] + ([f"ZeRO-{layout.zero}"] if layout.zero else [])
    words += [layout.schedule] if layout.schedule != "1f1b" else []
    return " ".join(words + ([f"{layout.recompute} recompute"] if layout.recompute != "none" else []))


def draw_step(ax: Axes, rows: Mapping[str, StepSeconds], *, title: str) -> str:
    """Draw where the time of a step goes, one bar per label, the first on top. Returns the sentence.

    Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("give at least one step")
    longest = max(step.total for step in rows.values())
    for place, step in enumerate(rows.values()):
        begin = 0.0
        for name, seconds in vars(step).items():
            colour, hatch = PARTS.get(name, ("communication", "++"))
            fill = PALETTE[colour]
            bar = {"color": fill, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            ax.barh(place, seconds, left=begin, height=0.6, label=name, **bar)
            if seconds > 0.07 * longest:
                box = {"facecolor": fill, "edgecolor": "none", "pad": 1}
                written = written_seconds(float(f"{seconds:.{2 if seconds < 100 else 3}g}"))
                middle = begin + seconds / 2
                ax.text(middle, place, written, ha="center", va="center", fontsize=8, color=text_colour(fill), bbox=box)
            begin += seconds
        total = written_seconds(step.total)
        ax.annotate(total, (begin, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    _finish(ax, list(rows), longest, title, {name for step in rows.values() for name, s in vars(step).items() if s})
    return _in_words(rows, title)


def _finish(ax: Axes, labels: list[str], longest: float, title: str, used: set[str]) -> None:
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.15 * longest or 1)
    ax.set_xlabel("seconds", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    handles = {text: handle for handle, text in zip(*ax.get_legend_handles_labels(), strict=True) if text in used}
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(handles.values(), handles.keys(), fontsize=8, frameon=False, **place)
    ax.set_title(title, loc="left", fontsize=10)


def _in_words(rows: Mapping[str, StepSeconds], title: str) -> str:
    told = []
    for label, step in rows.items():
        parts = ", ".join(f"{name} {s / step.total:.0%}" for name, s in vars(step).items() if s >= 0.005 * step.total)
        told.append(f"{label}: {written_seconds(step.total)} ({parts})")
    return f"In words: {title}. {'; '.join(told)}.".replace("\n", " ")


def _points(plans: Sequence[Plan]) -> tuple[list[float], list[float]]:
    return [one.memory.total / GIB for one in plans], [one.step.total for one in plans]


def _some(front: list[Plan], most: int) -> list[Plan]:
    """The first, the last, and evenly spaced ones between."""
    if len(front) <= most:
        return front
    return [front[round(place * (len(front) - 1) / (most - 1))] for place in range(most)]


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers from just below `least` to `most`."""
    rounds = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 1.5, 2, 3, 5, 7)]
    return [one for one in rounds if 0.85 * least <= one <= most] or [least]


AXES = ("tp", "cp", "ep", "pp", "dp")


def memory_rows(model: Transformer, layouts: Sequence[Layout]) -> dict[str, dict[str, float]]:
    """Rows for `draw_memory`: the fullest rank of each layout; activations include logits and gathered layers."""
    rows = {}
    for layout in layouts:
        held = peak_memory(model, layout, gradient_bytes=GRADIENT_BYTES)
        states = {name: getattr(held.states, name) for name in ("parameters", "gradients", "optimizer")}
        rows[layout_text(layout)] = states | {"activations": held.total - held.states.total}
    return rows


def axis_bytes(model: Transformer, layout: Layout) -> dict[str, float]:
    """Bytes that a rank of the first stage sends in a step, by axis, without axes that send nothing."""
    sent = vars(traffic_of_step(model, layout))
    sums = {axis: sum(value for name, value in sent.items() if name.split("_")[0] == axis) for axis in AXES}
    return {axis: value for axis, value in sums.items() if value} or {"none": 0.0}


def plan_pictures(model: Transformer, layout: Layout, gpu: Accelerator) -> list[tuple[Figure, str]]:
    """Memory, traffic and time of a layout: three figures, each with its sentence."""
    pictures = []
    for height, draw in ((2.3, _memory), (1.9, _traffic), (1.8, _step)):
        figure, ax = new_axes(7.5, height)
        sentence = draw(ax, model, layout, gpu)
        pictures.append((figure, sentence))
    return pictures


def _memory(ax, model: Transformer, layout: Layout, gpu: Accelerator) -> str:
    rows = memory_rows(model, [layout])
    limit = usable_bytes(gpu)
    fits = sum(next(iter(rows.values())).values()) <= limit
    title = f"Memory of the fullest rank: {'fits' if fits else 'does not fit'}"
    return draw_memory(ax, rows, title=title, limit=limit, limit_label=f"usable of {gpu.name}", unit="GiB")


def _traffic(ax, model: Transformer, layout: Layout, gpu: Accelerator) -> str:
    return draw_bars(ax, axis_bytes(model, layout), title="Bytes that a rank sends in a step, by axis")


def _step(ax, model: Transformer, layout: Layout, gpu: Accelerator) -> str:
    step = seconds_of(model, layout, gpu)
    return draw_step(ax, {"a step": step}, title=f"Predicted on {layout.world} {gpu.name}")


def plan_explorer(model: str = "llama3-70b", gpu: str = "h100", sequences: int = 1024) -> widgets.VBox:
    """Choose a model, a GPU and a layout to see memory, traffic and time."""
    models = widgets.Dropdown(options=list(ZOO), value=model, description="Model")
    gpus = widgets.Dropdown(options=list(ACCELERATORS), value=gpu, description="GPU")
    batch = widgets.Dropdown(
        options=sorted({128, 256, 512, 1024, 2048, sequences}), value=sequences, description="Batch"
    )
    zero = widgets.Dropdown(options=[0, 1, 2, 3], value=1, description="ZeRO")
    recompute = widgets.Dropdown(options=["none", "selective", "full"], value="none", description="Recompute")
    tp, pp, dp = (
        widgets.SelectionSlider(options=[2**power for power in range(most + 1)], value=value, description=name)
        for name, most, value in (("Tensor", 4, 8), ("Pipeline", 6, 4), ("Data", 10, 8))
    )
    page = widgets.HTML()

    def redraw(_: object = None) -> None:
        wanted = ZOO[str(models.value)]
        sizes = {"tp": tp.value, "pp": pp.value, "dp": dp.value, "zero": zero.value, "recompute": recompute.value}
        try:
            layout = with_global_batch(Layout(**sizes, sequence_parallel=tp.value > 1), int(str(batch.value)))
            check_layout(wanted, layout)
        except ValueError as error:
            page.value = f"<p>{html.escape(str(error))}</p>"
            return
        page.value = "".join(starmap(as_html, plan_pictures(wanted, layout, ACCELERATORS[str(gpus.value)])))

    controls = [models, gpus, batch, zero, recompute, tp, pp, dp]
    for control in controls:
        control.observe(redraw, names="value")
    redraw()
    box = widgets.VBox([widgets.HBox(controls[:3]), widgets.HBox(controls[3:5]), *controls[5:], page])
    return with_still(box, page.value)
