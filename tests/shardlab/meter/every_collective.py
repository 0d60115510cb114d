"""Run in a separate network namespace: compare the meter's bytes of each collective with the loopback's counter."""

import json
import warnings
from pathlib import Path

import shardlab
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from shardlab import meter

RANKS, NUMBERS = 4, 2**19
ROWS = [[(source + 1) * (to + 1) * 20_000 for to in range(RANKS)] for source in range(RANKS)]


def sent_over_loopback():
    lines = Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[9])


def operations(rank):
    """Every call that carries data, by name. Each can be repeated."""
    world, whole, each = dist.group.WORLD, torch.ones(NUMBERS), NUMBERS // RANKS
    sent, received = ROWS[rank], [row[rank] for row in ROWS]
    to_itself = [NUMBERS if other == rank else 0 for other in range(RANKS)]

    def parts():
        return list(torch.empty(NUMBERS).chunk(RANKS))

    def pass_on():
        if rank < 2:
            dist.send(whole, 1) if rank == 0 else dist.recv(whole, 0)

    def uneven(rows_out, rows_in):
        dist.all_to_all_single(torch.empty(sum(rows_in)), torch.ones(sum(rows_out)), rows_in, rows_out)

    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "all_gather": lambda: dist.all_gather(parts(), torch.ones(each)),
        "all_gather_single": lambda: dist.all_gather_single(torch.empty(NUMBERS), torch.ones(each)),
        "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(each), parts()),
        "reduce_scatter_single": lambda: dist.reduce_scatter_single(torch.empty(each), whole),
        "gather": lambda: dist.gather(torch.ones(each), parts() if rank == 1 else None, dst=1),
        "scatter": lambda: dist.scatter(torch.empty(each), parts() if rank == 1 else None, src=1),
        "all_to_all": lambda: dist.all_to_all(parts(), parts()),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.empty(NUMBERS), whole),
        "all_to_all_single, uneven": lambda: uneven(sent, received),
        "all_to_all_single, to itself": lambda: uneven(to_itself, to_itself),
        "send": pass_on,
        "functional all_reduce": lambda: functional.all_reduce(whole, "sum", world).sum(),
        "functional broadcast": lambda: functional.broadcast(whole, 0, world).sum(),
        "functional all_gather": lambda: functional.all_gather_tensor(torch.ones(each), 0, world).sum(),
        "functional reduce_scatter": lambda: functional.reduce_scatter_tensor(whole, "sum", 0, world).sum(),
        "functional all_reduce, coalesced": lambda: [
            one.sum() for one in functional.all_reduce_coalesced([whole, whole.clone()], "sum", world)
        ],
        "functional all_gather, coalesced": lambda: [
            one.sum() for one in functional.all_gather_into_tensor_coalesced([torch.ones(each)] * 2, world)
        ],
        "functional reduce_scatter, coalesced": lambda: [
            one.sum() for one in functional.reduce_scatter_tensor_coalesced([whole] * 2, "sum", [0, 0], world)
        ],
        "functional all_to_all, uneven": lambda: functional.all_to_all_single(
            torch.ones(sum(sent)), received, sent, world
        ).sum(),
        "permute_tensor, all": lambda: functional.permute_tensor(whole, [1, 2, 3, 0], world).sum(),
        "permute_tensor, some": lambda: functional.permute_tensor(whole, [0, 2, 1, 3], world).sum(),
    }


def both():
    """{name: (bytes billed on this rank, loopback bytes of all ranks)}. The first call opens the connections."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = {}
    for name, operation in operations(dist.get_rank()).items():
        operation()
        dist.barrier()
        before = sent_over_loopback()
        dist.barrier()
        with meter.record() as bill:
            operation()
        dist.barrier()
        found[name] = bill.sent_bytes, sent_over_loopback() - before
        dist.barrier()
    return found


if __name__ == "__main__":
    by_rank = shardlab.run(both, ranks=RANKS, transport="gloo", timeout=120)
    totals = {name: (sum(one[name][0] for one in by_rank), by_rank[0][name][1]) for name in by_rank[0]}
    print(json.dumps(totals))
