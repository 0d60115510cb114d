"""Communication behind computation in pipelines."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import shardlab
import torch
import torch.distributed as dist
from oracle import named
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, dualpipe_v
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.overlap import Streams, streams_of
from shardlab.pipeline_parallel.schedule import Overlap, actions_of, num_stages, parse_slot, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.ranks.transports import NCCL_SHARED, choose_transport
from torch import nn

# ---- The two halves of a pair get two streams, and everything else keeps its order. On a GPU they run concurrently. --

ONE_RANK = [[parse_slot(text) for text in ("0F0", "(0F1;0B0)OVERLAP_F_B", "(0F2;0B1)OVERLAP_F_B", "0B2")]]


def with_pairs():
    recorded = [[[parse_slot(t) for t in rank] for rank in entry.texts] for entry in named("dualpipe", "DualPipe")]
    return [ONE_RANK, dualpipe(8, 20), dualpipe_v(4, 10), *recorded]


def test_halves_of_a_pair_differ_and_a_backward_repeats_its_forward():
    for schedule in with_pairs():
        for slots in schedule:
            streams = streams_of(slots)
            for slot in slots:
                if isinstance(slot, Overlap):
                    assert {streams[slot.forward], streams[slot.backward]} == {0, 1}
            for action in (action for slot in slots for action in actions_of(slot)):
                forward = next(a for a in streams if str(a) == f"{action.stage}F{action.microbatch}")
                assert streams[action] == streams[forward]


def test_without_pairs_one_stream_is_enough():
    for name in ("1f1b", "zb-h1", "zbv", "v-min"):
        for slots in BUILDERS[name](4, 8):
            assert set(streams_of(slots).values()) == {0}


def test_both_streams_wait_for_each_other_around_every_slot(monkeypatch):
    said = []

    class FakeStream:
        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            said.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def on(stream):
        said.append(f"on {stream.name}")
        yield

    event = SimpleNamespace(record=lambda stream: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: FakeStream("main"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: FakeStream("side"))
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: event)
    monkeypatch.setattr(torch.cuda, "stream", on)

    pairs, received = [], SimpleNamespace(record_stream=lambda stream: said.append(f"input kept for {stream.name}"))
    streams = Streams(ONE_RANK[0], torch.device("cuda"), pairs)
    for slot in ONE_RANK[0][:2]:
        with streams.slot(slot):
            for action in actions_of(slot):
                with streams.action(action, received if action.microbatch else None):
                    said.append(str(action))
    assert said == [
        *["side waits for main", "on main", "0F0", "main waits for side"],
        *["side waits for main", "input kept for side", "on side", "0F1", "on main", "0B0", "main waits for side"],
    ]
    assert len(pairs) == 1


class Busy(torch.autograd.Function):
    """Keeps one multiprocessor of the GPU busy for a while, forward and backward."""

    CYCLES = 50_000_000

    @staticmethod
    def forward(ctx, x):
        torch.cuda._sleep(Busy.CYCLES)
        return x.clone()

    @staticmethod
    def backward(ctx, *gradients):
        torch.cuda._sleep(Busy.CYCLES)
        return gradients[0]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return Busy.apply(self.linear(x))


def pairs_on_a_gpu():
    """Whether each pair overlapped, and the gradients compared with sequential microbatches."""
    layer, twin = Layer().cuda(), Layer().cuda()
    batches = list(torch.randn(3, 4, 8, device="cuda"))
    stage = ModuleStage(layer, inputs=batches, loss=lambda output, _: output.square().mean())
    pairs = []
    execute(ONE_RANK, {0: stage}, group=dist.group.WORLD, executor=Executor(pair_times=pairs))
    for batch in batches:
        twin(batch).square().mean().backward()
    same = [torch.allclose(a.grad, b.grad) for a, b in zip(layer.parameters(), twin.parameters(), strict=True)]
    return [pair.overlapped for pair in pairs], same


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need a GPU")
def test_a_pair_runs_at_one_time_on_a_gpu():
    ((overlapped, same),) = shardlab.run(pairs_on_a_gpu, ranks=1, timeout=60)
    assert overlapped == [True, True] and all(same)


# ---- On a GPU, a pair's backward computes while its forward's experts exchange their tokens. CUDA events prove it.
# Four ranks share the GPU: two DualPipeV pipelines of two stages, with each stage's experts on two ranks.

PIPELINES, EXPERT_RANKS, WIDTH, ROWS, MICROBATCHES = [[0, 1], [2, 3]], [[0, 2], [1, 3]], 512, 4096, 6
CYCLES = 10_000_000  # of a kernel that keeps one multiprocessor busy for about five milliseconds


class Span(NamedTuple):
    """Events around one piece of GPU work."""

    begin: torch.cuda.Event
    end: torch.cuda.Event

    @classmethod
    def around(cls, work):
        span = cls(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        span.begin.record()
        work()
        span.end.record()
        return span

    def meets(self, other):
        return self.begin.elapsed_time(other.end) > 0 and other.begin.elapsed_time(self.end) > 0


class BusyAllToAllOverlap(torch.autograd.Function):
    """Computes for a while, and twice as long in the backward."""

    @staticmethod
    def forward(ctx, x, spans):
        ctx.spans = spans
        torch.cuda._sleep(CYCLES)
        return x.clone()

    @staticmethod
    def backward(ctx, *gradients):
        ctx.spans["backward computes"].append(Span.around(lambda: torch.cuda._sleep(2 * CYCLES)))
        return gradients[0], None


class Exchange(torch.autograd.Function):
    """An all-to-all among the ranks of the experts. Its adjoint is also an all-to-all."""

    @staticmethod
    def forward(ctx, x, group, spans):
        ctx.group, ctx.spans = group, spans
        out = torch.empty_like(x)
        spans["forward exchanges"].append(Span.around(lambda: dist.all_to_all_single(out, x, group=group)))
        return out

    @staticmethod
    def backward(ctx, *gradients):
        out = torch.empty_like(gradients[0])
        dist.all_to_all_single(out, gradients[0].contiguous(), group=ctx.group)
        return out, None, None


class Experts(nn.Module):
    """Compute, exchange, expert, compute."""

    def __init__(self, group, spans, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.expert = nn.Linear(WIDTH, WIDTH, device="cuda")
        self.group, self.spans = group, spans

    def forward(self, x):
        exchanged = Exchange.apply(BusyAllToAllOverlap.apply(x, self.spans), self.group, self.spans)
        return BusyAllToAllOverlap.apply(self.expert(exchanged), self.spans)


def train():
    """How many forwards' exchanges overlapped a backward's compute, and how many pairs had overlapping halves."""
    rank = dist.get_rank()
    pipelines, experts = ([dist.new_group(ranks) for ranks in groups] for groups in (PIPELINES, EXPERT_RANKS))
    pipeline, experts_here = pipelines[rank // 2], experts[rank % 2]
    schedule, spans = dualpipe_v(2, MICROBATCHES), {"backward computes": [], "forward exchanges": []}
    last = num_stages(schedule) - 1
    batches = list(torch.randn(MICROBATCHES, ROWS, WIDTH, device="cuda"))
    stages = {
        stage: ModuleStage(
            Experts(experts_here, spans, seed=stage),
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=(lambda output, _: output.square().mean()) if stage == last else None,
        )
        for stage in stages_of_rank(schedule, rank % 2)
    }
    dist.all_reduce(torch.zeros(1, device="cuda"), group=experts_here)  # connect before the pipeline starts
    pairs = []
    for _ in range(2):  # the first step loads kernels
        pairs.clear()
        for found in spans.values():
            found.clear()
        execute(schedule, stages, group=pipeline, executor=Executor(pair_times=pairs))
        torch.cuda.synchronize()
    hidden = [
        any(exchange.meets(work) for work in spans["backward computes"]) for exchange in spans["forward exchanges"]
    ]
    return sum(hidden), [pair.overlapped for pair in pairs]


@pytest.mark.gpu
@pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer")
def test_the_exchange_of_a_forward_hides_behind_the_backward_of_its_pair():
    schedule = dualpipe_v(2, MICROBATCHES)
    results = shardlab.run(train, ranks=4, timeout=100)
    for rank, (hidden, overlapped) in enumerate(results):
        num_pairs = sum(isinstance(slot, Overlap) for slot in schedule[rank % 2])
        assert num_pairs > 0
        assert overlapped == [True] * num_pairs
        assert hidden >= num_pairs
