"""The schedules, one file per family. Every builder takes (num_ranks, num_microbatches) and returns a `Schedule`."""

from collections.abc import Callable

from shardlab.pipeline_parallel.builders.controllable_memory import v_half, v_min
from shardlab.pipeline_parallel.builders.dualpipe import dualpipe, dualpipe_v
from shardlab.pipeline_parallel.builders.greedy import greedy
from shardlab.pipeline_parallel.builders.one_f_one_b import gpipe, interleaved, one_f_one_b
from shardlab.pipeline_parallel.builders.zero_bubble import zb_h1, zb_h2, zbv
from shardlab.pipeline_parallel.schedule import Schedule

BUILDERS: dict[str, Callable[..., Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
    "zb-h2": zb_h2,
    "zbv": zbv,
    "v-half": v_half,
    "v-min": v_min,
    "dualpipe": dualpipe,
    "dualpipe-v": dualpipe_v,
}

NAMES = {  # as written in their papers
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved 1F1B",
    "zb-h1": "ZB-H1",
    "zb-h2": "ZB-H2",
    "zbv": "ZBV",
    "v-half": "V-Half",
    "v-min": "V-Min",
    "dualpipe": "DualPipe",
    "dualpipe-v": "DualPipeV",
}

__all__ = [
    "BUILDERS",
    "NAMES",
    "dualpipe",
    "dualpipe_v",
    "gpipe",
    "greedy",
    "interleaved",
    "one_f_one_b",
    "v_half",
    "v_min",
    "zb_h1",
    "zb_h2",
    "zbv",
]
