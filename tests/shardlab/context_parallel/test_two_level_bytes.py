"""Two levels: bytes inside an inner group and across, by the meter and by the kernel's counters."""

import os
import socket
import stat
import struct
import time

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.context_parallel.attention import attend
from shardlab.context_parallel.balance import zigzag
from shardlab.context_parallel.ulysses import TwoLevel, two_level_groups
from shardlab.costs.context import two_level_context_bytes

BATCH, TOKENS, WIDTH = 2, 16, 8  # tokens of a rank
FRAME = 48  # bytes of a gloo frame header, with or without a message


def sent_by_socket():
    """{(own port, peer's port): bytes that arrived}, from the kernel's tcpi_bytes_acked, which counts none twice."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                found[one.getsockname()[1], one.getpeername()[1]] = struct.unpack_from("<Q", info, 120)[0]
        except (OSError, struct.error):  # not a connection
            continue
    return found


def step(inner_size, heads, kv_heads, dtype):
    """Bytes of a forward and a backward: by the meter, inside and across, each way; by the kernel, to each rank."""
    size, rank = dist.get_world_size(), dist.get_rank()
    inner, outer = two_level_groups([list(range(size))], inner_size)
    here = {*dist.get_process_group_ranks(inner)}

    def attended(bills):
        shapes = [(BATCH, count, TOKENS, WIDTH) for count in (heads, kv_heads, kv_heads)]
        leaves = [torch.ones(shape, dtype=dtype, requires_grad=True) for shape in shapes]
        method = TwoLevel(inner, outer)
        with meter.record() as bill:
            o = attend(*leaves, layout=zigzag(size * TOKENS, size), group=None, method=method, agreed=True)
        bills.append(bill)
        with meter.record() as bill:
            o.sum().backward()
        bills.append(bill)

    attended([])  # opens the connections
    time.sleep(0.1)
    before, bills = sent_by_socket(), []
    attended(bills)
    time.sleep(0.1)
    sent = {ports: total - before.get(ports, 0) for ports, total in sent_by_socket().items()}

    by_meter = [[0.0, 0.0], [0.0, 0.0]]
    for way, bill in enumerate(bills):
        for event in bill.events:
            to = {*event.members} if event.peer is None else {rank, event.peer}
            by_meter[not to <= here][way] += event.sent_bytes
    listed = [[]] * size
    dist.all_gather_object(listed, list(sent))
    owner = {own_and_peer: number for number, some in enumerate(listed) for own_and_peer in some}
    by_kernel = [0, 0]
    for (own, peer), total in sent.items():
        if (peer, own) in owner:
            by_kernel[owner[peer, own] not in here] += total
    return by_meter, by_kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 1)])
@pytest.mark.parametrize(("inner", "outer"), [(2, 2), (1, 4), (4, 1), (2, 3)])
def test_bytes_inside_and_across_are_the_formulas(inner, outer, heads, kv_heads, dtype):
    """The wire carries these bytes plus whole gloo frame headers, and nothing else."""
    widths = heads * WIDTH, kv_heads * WIDTH
    sizes = {"kv_heads": kv_heads, "bytes_each": dtype.itemsize}
    due = two_level_context_bytes(inner, outer, BATCH * TOKENS, *widths, **sizes)
    results = shardlab.run(step, inner, heads, kv_heads, dtype, ranks=inner * outer, transport="gloo", timeout=60)
    for by_meter, by_kernel in results:
        assert by_meter == [[*due.inside], [*due.across]]
        for total, formula in zip(by_kernel, due, strict=True):
            frames = (total - formula.both) / FRAME
            assert frames == int(frames) and 0 <= frames < 100 and (formula.both == 0) == (total == 0)
