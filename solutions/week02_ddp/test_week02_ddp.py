"""Week 2: the checks' reference answers, partial credit, and the facts stated on the page and in its questions."""

import inspect
import re
import sys
from random import Random

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.costs import compression, overlap, traffic
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _BucketCapacityConfig
from torch.utils.data import DistributedSampler

from autograder.authoring import notebooks
from autograder.jobs.marked import marked_mlp
from autograder.jobs.trained import mlp
from autograder.weeks.week02_ddp import stochastic, ten_and_eight, top_k, unused
from autograder.weeks.week02_ddp.assign_buckets import expected_buckets
from autograder.weeks.week02_ddp.reading import READING


def text() -> str:
    lines = notebooks.source_path("week02_ddp").read_text().splitlines()
    return " ".join(line.removeprefix("# ").removeprefix("> ") for line in lines)


def test_numbers_in_the_text_are_those_of_the_functions():
    worst, best = ten_and_eight.both({})
    assert f"only {int(100 * worst)}% efficiency" in text() and f"it cannot exceed {best:.0%}" in text()
    assert f"Without overlap 10/18 = {worst:.0%}" in text() and f"the best is 10/11.3 = {best:.0%}" in text()
    layers = 8
    ready = overlap.ready_times(10 / 3, [20 / 3 / layers] * layers)
    exposed = overlap.exposed_seconds(10, overlap.transfers(ready, [8 / layers] * layers))
    assert f"With eight it is {overlap.efficiency(10, exposed):.0%}" in text()
    assert 1000 * traffic.ring_all_reduce_bytes(2, 4e6 * 64) / 32e9 == 8
    assert 1000 * traffic.ring_all_reduce_bytes(2, 4e6 * 24) / 32e9 == 3


def test_what_the_reading_questions_ask_is_in_torch():
    assert READING["first_bucket"] == dist._DEFAULT_FIRST_BUCKET_BYTES
    assert f"{READING['at_the_start']}(" in inspect.getsource(DistributedDataParallel.__init__)
    source = inspect.getsource(default_hooks._compress_hook)
    called = re.findall(r"\b(to|div_|all_reduce|copy_)\(", source.split("else:\n        fut")[1])
    assert called == ["all_reduce"]  # copy_ is in decompress, which the future calls
    assert source.index("buffer.to(dtype).div_(") < source.index("def decompress")


def dtypes_in_a_bucket():
    sent, net = [], torch.nn.Linear(8, 8)
    model = DistributedDataParallel(net)

    def hook(_, bucket):
        sent.append(bucket.buffer().dtype)
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, hook)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.ones(2, 8))
    out.sum().backward()
    return out.dtype, sent


def test_autocast_leaves_the_bytes_of_a_bucket_as_they_are():
    for activation, sent in shardlab.run(dtypes_in_a_bucket, ranks=2):
        assert activation == torch.bfloat16 and [dtype.itemsize for dtype in sent] == [READING["autocast_bytes"]]


def test_two_messages_of_the_text():
    gradient = torch.tensor([3.0, -4.0, 0.0])
    assert stochastic.heights("terngrad", gradient, 1).tolist() == [0.75, -1, 0]
    assert stochastic.heights("qsgd", gradient, 2).tolist() == pytest.approx([1.2, -1.6, 0])
    assert stochastic.message_bits(3, 2) == 41 and "41 bits" in text()


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 7, 8, 64, 127])
def test_the_bits_are_those_that_the_package_sends(levels):
    assert stochastic.message_bits(1, levels) - 32 == compression.qsgd_bits(levels)


def test_a_bound_on_the_mean_of_draws_holds():
    share = torch.tensor([0.0, 0.001, 0.02, 0.5])
    drawn = torch.bernoulli(share.expand(200, 500, 4), generator=torch.Generator().manual_seed(0)).mean(1)
    assert ((drawn - share).abs() < stochastic.farthest(share * (1 - share), 500)).all()


def test_buckets_of_the_text():
    assert expected_buckets({"sizes": [4, 4, 4, 4], "bucket_bytes": 8}) == [[3, 2], [1, 0]]
    assert expected_buckets({"sizes": [4, 12, 4, 4], "bucket_bytes": 8}) == [[3, 2], [1], [0]]


def test_torchs_rule_for_buckets_is_the_pages():
    tensors = [torch.empty(num_bytes // 4) for num_bytes in (20, 60, 40, 100)]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [100], [False] * 4)
    assert buckets == [[0, 1, 2], [3]]  # 120 bytes: closed once it has reached its limit
    limits = _BucketCapacityConfig.create(None, None, use_python_reducer=False).compute_bucket_size_limits
    assert limits(static_graph=False, find_unused_parameters=False)[0] == [sys.maxsize]  # one bucket at first
    assert limits(static_graph=False, find_unused_parameters=True)[0] == [1 << 20, 25 << 20]


def test_what_is_said_of_the_sampler_and_of_powersgd():
    read = [list(DistributedSampler(range(10), num_replicas=4, rank=rank, shuffle=False)) for rank in range(4)]
    assert read == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert "set_epoch" in inspect.getdoc(DistributedSampler)
    source = inspect.getsource(powerSGD_hook.powerSGD_hook)
    assert source.count("dist.all_reduce(") == 3 and "all_gather(" not in source  # uncompressed tensors, P and Q


def test_what_top_k_leaves_out_comes_later():
    first, second = torch.tensor([3.0, -2.0, 1.0]), torch.tensor([0.0, -1.0, 2.5])
    means = top_k.expected_means([[first, second], [first, second]], 1)
    assert torch.equal(means[0], torch.tensor([3.0, 0.0, 0.0]))
    assert torch.equal(means[1], torch.tensor([0.0, 0.0, 3.5]))


def test_gradients_that_some_ranks_lack_count_as_zeros():
    task = unused.CHECK.make({"ranks": 2, "numbers": 3, "missing": [[0], [0, 1], []]}, Random(0))
    gradients = [mine["args"][0] for mine in task.inputs]
    assert gradients[0][0] is None and torch.equal(task.expected[0][0], gradients[1][0] / 2)
    assert gradients[1][1] is None and task.expected[0][1] is None
    assert torch.equal(task.expected[1][2], (gradients[0][2] + gradients[1][2]) / 2)


def test_marks_change_nothing_on_one_process():
    plain, marked = mlp([3, 4, 2]), marked_mlp([3, 4, 2])
    marked.load_state_dict(plain.state_dict())
    for net in (plain, marked):
        net(torch.ones(2, 3)).sum().backward()
    for one, other in zip(plain.parameters(), marked.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None and torch.equal(one.grad, other.grad)


@pytest.mark.parametrize(
    ("exercise", "name", "points", "words"),
    [
        ("ddp-backward", "after_the_backward", 2, "is not sent before the backward reaches layer"),
        ("ddp-backward", "synchronous", 2, "a hook that waits never ends"),
        ("top-k", "no_feedback", 1.5, "Right: one step."),
        ("stochastic", "max_for_both", 1, "not its Euclidean norm"),
    ],
)
def test_partial_credit(judged, exercise, name, points, words):
    verdict = judged(f"week02.{exercise}", name)
    assert verdict.points == pytest.approx(points, abs=1e-3) and words in verdict.text
