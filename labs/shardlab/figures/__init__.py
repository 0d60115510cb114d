"""Figures: every `draw_*` draws on the given axes and returns one "In words: ..." sentence. Needs no ranks."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.figures.bars import draw_bars, draw_traffic
    from shardlab.figures.block import draw_block
    from shardlab.figures.causal import chunk_owners, chunk_work, draw_causal_square
    from shardlab.figures.exchange import draw_exchange
    from shardlab.figures.experts import draw_fullest, draw_routing, draw_visits
    from shardlab.figures.explorer import schedule_explorer
    from shardlab.figures.goodput import draw_goodput
    from shardlab.figures.loss import draw_losses
    from shardlab.figures.masks import draw_masks
    from shardlab.figures.measured import draw_predicted_against_measured, draw_ring_against_tree
    from shardlab.figures.memory import draw_memory
    from shardlab.figures.mesh import draw_groups
    from shardlab.figures.oral import oral_exam, show_questions
    from shardlab.figures.overlap import draw_overlap
    from shardlab.figures.own import draw_own_trainer
    from shardlab.figures.page import new_axes, new_rows, show
    from shardlab.figures.pair import draw_pair
    from shardlab.figures.pairs import draw_paired_bars
    from shardlab.figures.palette import PALETTE
    from shardlab.figures.plan import draw_pareto, draw_step, layout_text
    from shardlab.figures.plan_sliders import axis_bytes, memory_rows, plan_explorer
    from shardlab.figures.profile import draw_profile, kept_traces
    from shardlab.figures.published import draw_against_published
    from shardlab.figures.regions import Region, draw_regions
    from shardlab.figures.ring import draw_ring_step
    from shardlab.figures.sliders import interact
    from shardlab.figures.stepper import ring_stepper
    from shardlab.figures.throughput import draw_throughput
    from shardlab.figures.timeline import draw_timeline, draw_timelines
    from shardlab.figures.timeline_marks import Marks
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
