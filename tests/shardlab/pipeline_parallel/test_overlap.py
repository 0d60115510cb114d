"""The two halves of a pair get two streams, and everything else keeps its order. On a GPU they run concurrently."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import shardlab
import torch
import torch.distributed as dist
from oracle import named
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, dualpipe_v
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.overlap import Streams, streams_of
from shardlab.pipeline_parallel.schedule import Overlap, actions_of, parse_slot
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn

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
