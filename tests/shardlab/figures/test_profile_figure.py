"""A profiler trace as lanes: which action a kernel belongs to, and that a real trace follows its schedule."""

import gzip
import json
from itertools import groupby
from pathlib import Path

import pytest
from shardlab.figures.page import new_axes
from shardlab.figures.profile import Piece, draw_profile, joined, kept_traces, read_trace, shares, waiting
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.schedule import Kind

from benchmarks.profiler_traces import kernels_of

TRACES = Path(__file__).parents[3] / "benchmarks" / "results" / "traces_h200"


def event(cat, name, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


GPU = [
    event("cuda_runtime", "cudaLaunchKernel", 1, 0, 5, correlation=1),
    event("kernel", "gemm", 7, 1000, 2000, correlation=1, stream=7),
    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 2, 50, 40),
    event("cuda_runtime", "cudaLaunchKernel", 2, 60, 5, correlation=2),
    event("kernel", "gemm", 36, 2000, 2000, correlation=2, stream=36),
    event("user_annotation", "Optimizer.step#SGD.step", 1, 100, 50),
    event("cuda_driver", "cuLaunchKernel", 1, 110, 5, correlation=3),
    event("kernel", "add", 7, 4000, 1000, correlation=3, stream=7),
    event("kernel", "ncclDevKernel_SendRecv", 16, 2500, 500, correlation=9, stream=16),
    {"ph": "M", "name": "process_name", "args": {}},
]
CPU = [
    event("cpu_op", "aten::linear", 1, 0, 1000),
    event("cpu_op", "aten::addmm", 1, 100, 800),  # inside
    event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1, 2000, 1000),
    event("cpu_op", "aten::mm", 1, 2100, 500),
    event("user_annotation", "gloo:all_reduce", 5, 2300, 900),
    event("user_annotation", "gloo:barrier", 5, 0, 900),
    event("user_annotation", "Optimizer.step#AdamW.step", 1, 4000, 1000),
    event("cpu_op", "aten::add_", 1, 4100, 100),
]


@pytest.fixture
def written(tmp_path):
    def write(events):
        path = tmp_path / "trace.json.gz"
        path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
        return path

    return write


def test_a_kernel_belongs_to_who_launched_it(written):
    assert read_trace(written(GPU)) == [
        ("forward", 7, 1.0, 3.0),
        ("backward", 36, 2.0, 4.0),
        ("communication", None, 2.5, 3.0),
        ("optimizer", 7, 4.0, 5.0),
    ]


def test_without_kernels_operators_are_read(written):
    assert read_trace(written(CPU)) == [
        ("forward", 0, 0.0, 1.0),
        ("backward", 0, 2.1, 2.6),
        ("communication", None, 2.3, 3.2),
        ("optimizer", 0, 4.1, 4.2),
    ]


@pytest.mark.parametrize(
    "text",
    [b"no gzip", gzip.compress(b"no json"), gzip.compress(b"[1]"), gzip.compress(b"{}")],
    ids=["no gzip", "no JSON", "a list", "no events"],  # gzip output contains the time, but a test name must not
)
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "x.json.gz"
    path.write_bytes(text)
    with pytest.raises(ValueError, match="is not a profiler's trace"):
        read_trace(path)


def test_a_trace_without_work_is_refused(written):
    with pytest.raises(ValueError, match="holds neither kernels nor operators"):
        read_trace(written([]))


def test_shares_of_a_step(written):
    pieces = read_trace(written(GPU))
    assert shares([pieces], (1.0, 5.0)) == (0.0, 1.0)  # computed from 1 to 5, with the message in parallel
    assert shares([pieces, []], (1.0, 5.0)) == (0.5, 1.0)
    assert joined([(3, 4), (0, 2), (1, 2.5)]) == [(0, 2.5), (3, 4)]


def test_a_message_waits_until_its_partner_begins():
    def message(begin, end):
        return Piece("communication", None, begin, end)

    sends = [message(0.0, 5.0), message(6.0, 7.0)]
    assert waiting([sends, [message(4.0, 5.05)]], 0) == [(0.0, 4.0)]  # the second has no partner
    assert waiting([sends, [message(4.0, 5.05)]], 1) == []
    assert waiting([sends, [message(3.0, 6.0)], [message(4.5, 9.0)]], 0) == [(0.0, 4.5)]  # the last that still runs
    assert waiting([sends], 0) == []


def test_waiting_is_not_drawn_for_operators(written):
    _, ax = new_axes(9.0, 2.6)
    path = written(CPU)
    assert "waiting" not in draw_profile(ax, [path, path], name="On CPUs")


@pytest.mark.parametrize("rank", range(4))
def test_a_real_trace_of_1f1b_follows_the_schedule(rank):
    """Forwards and backwards alternate as in our schedule, inferred only from kernels and their launches."""
    pieces = read_trace(TRACES / f"week07-rank{rank}.json.gz")
    measured = [meaning for meaning, _ in groupby(p.meaning for p in pieces if p.stream is not None)]
    due = [
        kind
        for kind, _ in groupby("forward" if slot.kind is Kind.F else "backward" for slot in one_f_one_b(4, 8)[rank])
    ]
    assert measured == due


def test_a_real_trace_of_a_pair_has_both_halves_at_one_time():
    pieces = read_trace(TRACES / "week13-rank2.json.gz")
    forwards, backwards = ([p for p in pieces if p.meaning == name] for name in ("forward", "backward"))
    together = [(f, b) for f in forwards for b in backwards if f.begin < b.end and b.begin < f.end]
    assert len({p.stream for p in pieces if p.stream is not None}) == 2
    assert together and all(f.stream != b.stream for f, b in together)


def test_the_figure_says_what_it_shows():
    figure, ax = new_axes(9.0, 2.6)
    sentence = draw_profile(ax, sorted(TRACES.glob("week02-rank*.json.gz")), name="DDP")
    assert (
        sentence.startswith("DDP: 2 ranks, 77 ms.")
        and "90% of the messages' time overlaps compute; 49% of it is waiting" in sentence
    )
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        *("forward", "backward", "optimizer", "messages"),
        "waiting for a partner",
    ]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1"] and figure is not None


@pytest.mark.parametrize(("week", "ranks"), [("week02", 2), ("week07", 4), ("week13", 4)])
def test_the_package_keeps_what_the_figure_reads_of_the_whole_traces(week, ranks):
    wholes = sorted(TRACES.glob(f"{week}-rank*.json.gz"))
    for kept, whole in zip(kept_traces(week), wholes, strict=True):
        assert gzip.decompress(kept) == gzip.decompress(kernels_of(whole.read_bytes()))
        assert read_trace(kept) == read_trace(whole)
    assert len(wholes) == ranks


def test_a_week_without_kept_traces_is_refused():
    with pytest.raises(ValueError, match="there are no traces of 'week99': use week02"):
        kept_traces("week99")
