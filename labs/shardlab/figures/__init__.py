"""Figures: every `draw_*` draws on the axes given and returns one "In words: ..." sentence. No ranks are needed."""

from shardlab.figures.bars import draw_bars, draw_traffic
from shardlab.figures.explorer import schedule_explorer
from shardlab.figures.measured import draw_predicted_against_measured, draw_ring_against_tree
from shardlab.figures.memory import draw_memory
from shardlab.figures.mesh import draw_groups
from shardlab.figures.page import new_axes, show
from shardlab.figures.palette import PALETTE
from shardlab.figures.ring import draw_ring_step
from shardlab.figures.stepper import ring_stepper
from shardlab.figures.timeline import draw_timeline

__all__ = [
    "PALETTE",
    "draw_bars",
    "draw_groups",
    "draw_memory",
    "draw_predicted_against_measured",
    "draw_ring_against_tree",
    "draw_ring_step",
    "draw_timeline",
    "draw_traffic",
    "new_axes",
    "ring_stepper",
    "schedule_explorer",
    "show",
]
