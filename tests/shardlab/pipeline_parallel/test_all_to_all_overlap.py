"""On a GPU, a pair's backward computes while its forward's experts exchange their tokens. CUDA events prove it.

Four ranks share the GPU: two DualPipeV pipelines of two stages, with each stage's experts on two ranks.
"""

from typing import NamedTuple

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.pipeline_parallel.builders import dualpipe_v
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.schedule import Overlap, num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.ranks.transports import NCCL_SHARED, choose_transport
from torch import nn

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


class Busy(torch.autograd.Function):
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
        exchanged = Exchange.apply(Busy.apply(x, self.spans), self.group, self.spans)
        return Busy.apply(self.expert(exchanged), self.spans)


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
