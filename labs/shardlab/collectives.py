"""The collectives, each built only from point-to-point messages: open, read and compare with your own.

Notation: N ranks in the group, S bytes in the whole tensor, `rank` is the rank in the group. In a ring, rank r sends
to its right neighbor r+1 and receives from its left neighbor r-1. Every function returns a new tensor and leaves its
input unchanged. For costs see `costs/traffic.py`.
"""

import os
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


@torch.no_grad()
def ring_reduce_scatter(chunks: Sequence[Tensor], *, group: Group) -> Tensor:
    """Sum chunk c over all ranks, for every c, and leave the finished chunk r on rank r.

    In step s rank r sends its partial sum of chunk r-1-s to the right and adds its own part to chunk r-2-s, which
    arrives from the left. After N-1 steps chunk r has visited every rank and ends up here.

    chunks: N tensors, one per rank; chunk c has the same shape and dtype on every rank, other chunks may differ.
    Returns the finished chunk `rank`. Sends N-1 messages, (N-1)/N * S bytes when the chunks are equal.
    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    rank, size = _rank_and_size(group)
    _check_one_chunk_per_rank(chunks, size)

    sums = [torch.empty_like(chunk, memory_format=torch.contiguous_format) for chunk in chunks]
    _add_round(chunks, sums, group)
    return sums[rank]


@torch.no_grad()
def ring_all_gather(chunk: Tensor, sizes: Sequence[int], *, group: Group) -> list[Tensor]:
    """Collect the chunk of every rank on every rank.

    In step s rank r passes chunk r-s to the right; chunk r-1-s arrives from the left.

    chunk: flat, sizes[rank] elements. sizes: the number of elements on each rank, the same list on every rank.
    Returns N flat tensors, views of one buffer in rank order. Sends N-1 messages, (N-1)/N * S bytes for equal sizes.
    Raises ValueError if `sizes` does not have one entry per rank or does not describe `chunk`.
    Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005 (ring).
    """
    rank, size = _rank_and_size(group)
    if len(sizes) != size:
        raise ValueError(f"{len(sizes)} sizes cannot describe the chunks of {size} ranks: give {size}, one per rank")
    if chunk.dim() != 1 or chunk.numel() != sizes[rank]:
        raise ValueError(
            f"rank {rank} holds a chunk of shape {tuple(chunk.shape)}, but sizes[{rank}] is {sizes[rank]}: "
            f"give a flat chunk of {sizes[rank]} elements, or sizes[{rank}] = {chunk.numel()}"
        )

    gathered = list(chunk.new_empty(sum(sizes)).split(list(sizes)))
    gathered[rank].copy_(chunk)
    _pass_round(gathered, group)
    return gathered


@torch.no_grad()
def ring_all_reduce(tensor: Tensor, *, group: Group) -> Tensor:
    """Sum a tensor over all ranks: a reduce-scatter, then an all-gather of the finished chunks.

    tensor: any shape and size (not necessarily divisible by N; some chunks may be empty), the same on every rank.
    Returns the sum, contiguous, the same bits on every rank. Sends 2(N-1) messages, 2(N-1)/N * S bytes.
    Source: Patarasuk and Yuan, 2009: the busiest rank of an all-reduce cannot send fewer bytes.
    """
    _, size = _rank_and_size(group)
    total = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    pieces = total.view(-1).tensor_split(size)

    _add_round(tensor.reshape(-1).tensor_split(size), pieces, group)

    _pass_round(pieces, group)
    return total


@torch.no_grad()
def all_to_all(chunks: Sequence[Tensor], *, group: Group) -> list[Tensor]:
    """Send chunk c to rank c, so that rank r gets chunk r of every rank: a transpose over ranks, without adding.

    In step s every rank sends to the rank s places to its right and receives from the rank s places to its left.

    chunks: N tensors of one shape and dtype, the same on every rank. Returns N new tensors, the c-th from rank c.
    Sends N-1 messages, (N-1)/N * S bytes, where S is what one rank holds in all its chunks.
    Raises ValueError if there is not one chunk per rank or their shapes differ.
    Source: Thakur, Rabenseifner and Gropp, 2005 (pairwise exchange).
    """
    rank, size = _rank_and_size(group)
    _check_one_chunk_per_rank(chunks, size)
    if len({(chunk.shape, chunk.dtype) for chunk in chunks}) > 1:
        shapes = ", ".join(f"{tuple(chunk.shape)}" for chunk in chunks)
        raise ValueError(f"chunks of shapes {shapes} cannot be exchanged: give {size} chunks of one shape and dtype")

    received = [torch.empty_like(chunk, memory_format=torch.contiguous_format) for chunk in chunks]
    received[rank].copy_(chunks[rank])
    for step in range(1, size):
        to, source = (rank + step) % size, (rank - step) % size
        _complete([_receive(received[source], source, group), _send(chunks[to].contiguous(), to, group)])
    return received


@torch.no_grad()
def tree_all_reduce(tensor: Tensor, *, group: Group) -> Tensor:
    """Sum a tensor over all ranks: up a binomial tree (二项树) to rank 0, then down the same tree.

    Few steps (2 * ceil(log2 N), a ring takes 2(N-1)), but each sends the whole tensor: best for short messages.

    tensor: any shape, the same on every rank. Returns the sum, contiguous, the same bits on every rank.
    Source: Thakur, Rabenseifner and Gropp, 2005 (binomial trees).
    """
    rank, size = _rank_and_size(group)
    total = tensor.clone(memory_format=torch.contiguous_format)
    arriving = torch.empty_like(total)
    distances = [2**level for level in range((size - 1).bit_length())]

    for distance in distances:
        if rank % (2 * distance) == distance:
            _complete([_send(total, rank - distance, group)])
        elif rank % (2 * distance) == 0 and rank + distance < size:
            _complete([_receive(arriving, rank + distance, group)])
            total.add_(arriving)

    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            _complete([_receive(total, rank - distance, group)])
        elif rank % (2 * distance) == 0 and rank + distance < size:
            _complete([_send(total, rank + distance, group)])
    return total


@torch.no_grad()
def hierarchical_all_reduce(tensor: Tensor, *, node_group: Group, cross_group: Group) -> Tensor:
    """Sum a tensor over all ranks of all nodes, with few bytes on the slow links between nodes.

    Three phases: reduce-scatter inside the node; all-reduce of my chunk with the ranks at my position in the other
    nodes; all-gather inside the node.

    node_group: the L ranks of this node. cross_group: the ranks at my position in each of the M nodes.
    tensor: any shape, the same on every rank. Returns the sum, contiguous, the same bits on every rank.
    Each rank sends 2(M-1)/M * S/L bytes to other nodes: S/2 for 2 nodes of 2.
    Source: Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash",
    arXiv 1811.05233 (2D-torus all-reduce).
    """
    rank, size = _rank_and_size(node_group)
    total = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    pieces = total.view(-1).tensor_split(size)

    _add_round(tensor.reshape(-1).tensor_split(size), pieces, node_group)

    pieces[rank].copy_(ring_all_reduce(pieces[rank], group=cross_group))

    _pass_round(pieces, node_group)
    return total


def seconds_of(call: Callable[[], object], *, group: Group, repetitions: int = 25) -> list[float]:
    """Seconds of each repetition of a call on this rank. All ranks start together; a first call is not counted.

    A barrier makes all ranks begin each repetition together.

    Raises ValueError for fewer than one repetition.
    """
    if repetitions < 1:
        raise ValueError(f"{repetitions} repetitions cannot be timed: use 1 or more")
    seconds = []
    for _ in range(1 + repetitions):  # the first one opens connections
        dist.barrier(group=group)
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def seconds_by_size(all_reduce: Callable[..., Tensor], sizes: Sequence[int], *, group: Group = None) -> list[float]:
    """Seconds of an all-reduce of each size, in bytes of float32: its fastest repetition, which its slowest rank times.

    Returns the same numbers on every rank.
    """
    tensors = [torch.ones(num_bytes // 4) for num_bytes in sizes]
    calls = [lambda tensor=tensor: all_reduce(tensor, group=group) for tensor in tensors]
    seconds = torch.tensor([seconds_of(call, group=group) for call in calls], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX, group=group)
    return seconds.amin(1).tolist()


def ranks_per_core(num_ranks: int) -> float:
    """How many ranks share one core of this machine; 1 if each has its own."""
    return max(1.0, num_ranks / (os.cpu_count() or 1))


def _add_round(chunks: Sequence[Tensor], sums: Sequence[Tensor], group: Group) -> None:
    """Each chunk goes around the ring and adds up every rank's part; sums[rank] ends complete, the others partial.

    sums: N buffers shaped like the chunks. Each partial sum has its own, so nothing arrives in a buffer being sent.
    """
    rank, size = _rank_and_size(group)
    if size == 1:
        sums[0].copy_(chunks[0])
    partial = chunks[(rank - 1) % size].contiguous()
    for step in range(size - 1):
        c = (rank - 2 - step) % size
        _send_right_receive_left(partial, sums[c], group)
        partial = sums[c].add_(chunks[c])


def _pass_round(pieces: Sequence[Tensor], group: Group) -> None:
    """Fill in the pieces of all other ranks in place; pieces[rank] is already there."""
    rank, size = _rank_and_size(group)
    for step in range(size - 1):
        _send_right_receive_left(pieces[(rank - step) % size], pieces[(rank - 1 - step) % size], group)


def _send_right_receive_left(outgoing: Tensor, arriving: Tensor, group: Group) -> None:
    rank, size = _rank_and_size(group)
    _complete([_receive(arriving, (rank - 1) % size, group), _send(outgoing, (rank + 1) % size, group)])


def _send(tensor: Tensor, peer: int, group: Group) -> dist.P2POp:
    return dist.P2POp(dist.isend, tensor, group=group, group_peer=peer)


def _receive(tensor: Tensor, peer: int, group: Group) -> dist.P2POp:
    return dist.P2POp(dist.irecv, tensor, group=group, group_peer=peer)


def _complete(operations: list[dist.P2POp]) -> None:
    """Start all operations together, so that no order can deadlock, and wait for every one."""
    for work in dist.batch_isend_irecv(operations) if operations else []:
        work.wait()


def _rank_and_size(group: Group) -> tuple[int, int]:
    """My rank in the group and the group's size."""
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"global rank {dist.get_rank()} is not in this group: pass a group that contains it")
    return rank, dist.get_world_size(group)


def _check_one_chunk_per_rank(chunks: Sequence[Tensor], size: int) -> None:
    if len(chunks) != size:
        raise ValueError(f"{len(chunks)} chunks for {size} ranks: give {size}, such as tensor.tensor_split({size})")
