"""Figures: every `draw_*` draws on the given axes and returns one "In words: ..." sentence. Needs no ranks."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.figures.animation import Animation, Frame, animate
    from shardlab.figures.bars import draw_bars, draw_memory, draw_paired_bars, draw_traffic
    from shardlab.figures.block import Region, draw_block, draw_regions
    from shardlab.figures.bound import draw_least_makespan
    from shardlab.figures.experts import draw_fullest, draw_routing, draw_visits
    from shardlab.figures.maps import draw_groups, draw_own_trainer
    from shardlab.figures.measured import (
        draw_against_published,
        draw_predicted_against_measured,
        draw_ring_against_tree,
    )
    from shardlab.figures.moving import dispatch_frames, gather_frames, ring_frames
    from shardlab.figures.page import new_axes, new_rows, show
    from shardlab.figures.palette import PALETTE
    from shardlab.figures.plan import axis_bytes, draw_pareto, draw_step, layout_text, memory_rows, plan_explorer
    from shardlab.figures.profile import draw_profile, kept_traces
    from shardlab.figures.ring import draw_ring_step
    from shardlab.figures.squares import chunk_owners, chunk_work, draw_causal_square, draw_exchange, draw_masks
    from shardlab.figures.timeline import draw_pair, draw_timeline, draw_timelines
    from shardlab.figures.timeline_marks import Marks
    from shardlab.figures.training import draw_goodput, draw_losses, draw_overlap, draw_throughput
    from shardlab.figures.widgets import interact, oral_exam, ring_stepper, schedule_explorer, show_questions
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
