"""A layout with sliders: the memory of its fullest rank, the bytes of each axis, and where its step time goes."""

import html
from collections.abc import Sequence
from itertools import starmap

import ipywidgets as widgets
from matplotlib.figure import Figure

from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.hardware import ACCELERATORS, Accelerator
from shardlab.costs.layout import Layout, check_layout, with_global_batch
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.model import Transformer
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import GRADIENT_BYTES, seconds_of, usable_bytes
from shardlab.figures.bars import draw_bars
from shardlab.figures.memory import draw_memory
from shardlab.figures.page import as_html, new_axes
from shardlab.figures.plan import draw_step, layout_text
from shardlab.study.still import with_still

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
