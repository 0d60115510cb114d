"""Collectives, data parallelism, ZeRO and FSDP: weeks 1 to 4."""

from shardlab.costs import compression, traffic
from shardlab.costs.memory.states import parameters_on_stage, zero_state_bytes
from shardlab.costs.overlap import efficiency
from shardlab.study.interview.question import Numbers, Question, Setting

GB = 1e9


def _eight_to_sixty_four(setting: Setting) -> Numbers:
    few, many = 8, 64
    bandwidth, latency = (
        of(many) / of(few) for of in (lambda n: traffic.ring_all_reduce_bytes(n, 1.0), traffic.all_reduce_messages)
    )
    return {"few": few, "many": many, "bandwidth": bandwidth, "latency": latency}


def _naive_or_ring(setting: Setting) -> Numbers:
    ranks = max(2, setting.layout.state_sharers)
    size = 2.0 * parameters_on_stage(setting.model, setting.layout).total
    naive, ring = traffic.naive_all_reduce_bytes(ranks, size).sent, traffic.ring_all_reduce_bytes(ranks, size)
    return {"ranks": ranks, "size": size / GB, "naive": naive / GB, "ring": ring / GB, "ratio": naive / ring}


def _tree_or_ring(setting: Setting) -> Numbers:
    ranks, alpha = 64, 10e-6
    below = traffic.tree_ring_crossover_bytes(ranks, alpha, 1 / setting.gpu.network)
    return {
        "ranks": ranks,
        "alpha": 1e6 * alpha,
        "bandwidth": setting.gpu.network / GB,
        "below": below / 1e6,
        "tree": traffic.all_reduce_messages(ranks, "tree"),
        "ring": traffic.all_reduce_messages(ranks, "ring"),
    }


def _ten_and_eight(setting: Setting) -> Numbers:
    compute, sent = 10.0, 8.0
    hidden = compute * 2 / 3
    numbers = {"none": efficiency(compute, sent), "best": efficiency(compute, max(0.0, sent - hidden))}
    return {"compute": compute, "sent": sent, "hidden": hidden} | numbers


def _top_k(setting: Setting) -> Numbers:
    elements, share = setting.parameters, 0.01
    message = compression.top_k_bytes(compression.kept_elements(elements, share))
    ranks = compression.break_even_ranks(2.0 * elements, message)
    return {"share": share, "bytes": compression.KEPT_BYTES, "message": message / GB, "ranks": ranks}


def _sixteen_bytes(setting: Setting) -> Numbers:
    one, own = (zero_state_bytes(number, 1, 0) for number in (1.0, setting.parameters))
    fp32 = zero_state_bytes(1.0, 1, 0, gradient_bytes=4)
    return {
        "weights": one.parameters,
        "gradients": one.gradients,
        "optimizer": one.optimizer,
        "total": one.total,
        "fp32": fp32.total,
        "own": own.total / 1e12,
        "name": setting.model.name,
        "gpus": own.total / setting.gpu.memory_bytes,
        "gpu": setting.gpu.name,
    }


def _hundred_million(setting: Setting) -> Numbers:
    stages = {f"z{stage}": zero_state_bytes(1e8, 2, stage).total / GB for stage in range(4)}
    return {"millions": 100, "ranks": 2} | stages


def _times_smaller(setting: Setting) -> Numbers:
    ranks = max(2, setting.layout.state_sharers)
    whole = zero_state_bytes(1.0, 1, 0).total
    saved = {f"z{stage}": whole / zero_state_bytes(1.0, ranks, stage).total for stage in (1, 2, 3)}
    limits = {f"limit{stage}": whole / zero_state_bytes(1.0, 10**9, stage).total for stage in (1, 2)}
    return {"ranks": ranks} | saved | limits


def _own_shard(setting: Setting) -> Numbers:
    shard, layout = parameters_on_stage(setting.model, setting.layout).total, setting.layout
    states = zero_state_bytes(shard, layout.state_sharers, layout.zero, gradient_bytes=4)
    parts = {name: getattr(states, name) / GB for name in ("parameters", "gradients", "optimizer")}
    return parts | {"shard": shard / 1e9, "stage": layout.zero, "sharers": layout.state_sharers}


def _over_ethernet(setting: Setting) -> Numbers:
    parameters, ranks, gigabits = 65e9, 64, 10
    speed = gigabits * 1e9 / 8
    seconds = {
        name: traffic.zero_bytes(ranks, 2 * parameters, stage) / speed for name, stage in (("ddp", 0), ("three", 3))
    }
    return {"billions": parameters / 1e9, "ranks": ranks, "gigabits": gigabits, "gigabytes": speed / 1e9} | seconds


DATA = (
    Question(
        "week01",
        "You go from {few} to {many} GPUs. Does the time of a ring all-reduce double?",
        "No. Each rank sends twice (N−1)/N of the tensor, so the bandwidth term grows by a factor of {bandwidth:.3f}. "
        "The latency term counts consecutive messages and grows by {latency:.1f}. That hardly matters for large "
        "tensors, but it does for small ones. The important change is the link: a ring that leaves the server runs "
        "at the network's speed.",
        _eight_to_sixty_four,
        own=False,
    ),
    Question(
        "week01",
        "All {ranks} data-parallel ranks send their {size:.1f} GB of gradients to rank zero and get the sum back. What "
        "is wrong with that?",
        "Rank zero sends {naive:.0f} GB and receives as much; in a ring every rank sends {ring:.1f} GB, {ratio:.1f} "
        "times less, and all links work at once. In a ring, each rank sends less than twice the tensor, no matter how "
        "many ranks there are.",
        _naive_or_ring,
    ),
    Question(
        "week01",
        "When does a tree beat a ring over {ranks} ranks, with {alpha:.0f} µs per message and {bandwidth:.0f} GB/s?",
        "Below {below:.1f} MB. The tree needs {tree} consecutive messages, the ring {ring}, but each message of the "
        "tree is the whole tensor. Small tensors pay for messages, large ones for bytes.",
        _tree_or_ring,
    ),
    Question(
        "week02",
        "A step computes for {compute:.0f} ms and communicates for {sent:.0f} ms. What is the efficiency?",
        "Without overlap, {none:.0%}. DDP hides communication behind the backward, about {hidden:.1f} ms of it here, "
        "so {best:.0%} is the best it can do. The last bucket is always exposed. A larger batch or fewer bytes reduce "
        "the rest.",
        _ten_and_eight,
        own=False,
    ),
    Question(
        "week02",
        "You send only the largest {share:.0%} of the gradients. On how many ranks does that stop paying?",
        "Each selected number costs {bytes} bytes (a value and its index), so a message has {message:.2f} GB. Sums "
        "of sparse gradients are not sparse, so messages are all-gathered, and their total grows with the number of "
        "ranks. At {ranks:.0f} ranks they cost as much as a bf16 ring all-reduce. Error feedback must keep what was "
        "not sent.",
        _top_k,
    ),
    Question(
        "week03",
        "Where do the {total:.0f} bytes per parameter go, and what does {name} need before its first activation?",
        "Weights {weights:.0f}, gradients {gradients:.0f}, and {optimizer:.0f} for the optimizer: a float32 master "
        "copy, momentum and variance. {name} needs {own:.2f} TB, the memory of {gpus:.1f} {gpu}. With gradients summed "
        "in float32 it is {fp32:.0f} bytes.",
        _sixteen_bytes,
    ),
    Question(
        "week03",
        "A model of {millions} million parameters on {ranks} GPUs: how many GB of states with DDP, and with each "
        "stage?",
        "{z0:.1f} GB with DDP, then {z1:.1f}, {z2:.1f} and {z3:.1f} GB. On two ranks only half of each part goes away; "
        "the large factors in papers are limits for many ranks.",
        _hundred_million,
        own=False,
    ),
    Question(
        "week03",
        "How many times smaller do the stages of ZeRO make the states of {ranks} ranks?",
        "{z1:.1f}, {z2:.1f} and {z3:.0f} times. The first two have limits, {limit1:.0f} and {limit2:.0f}, because they "
        "do not shard the weights, and the first does not shard gradients either. Only the third keeps growing with "
        "the number of ranks. Only states shrink; activations do not.",
        _times_smaller,
    ),
    Question(
        "week04",
        "In your own layout, how large are the states of one GPU in the first stage?",
        "It has {shard:.2f} billion parameters, the same on {sharers} ranks. With ZeRO stage {stage} that is "
        "{parameters:.1f} GB of weights, {gradients:.1f} GB of float32 gradients and {optimizer:.1f} GB of optimizer "
        "state.",
        _own_shard,
    ),
    Question(
        "week04",
        "{billions:.0f}B parameters on {ranks} ranks over {gigabits} GbE: seconds per step for the bytes alone?",
        "At {gigabytes:.2f} GB/s, {ddp:.0f} s with DDP and {three:.0f} s with ZeRO-3, which is half as much again: it "
        "gathers the weights for the forward and for the backward, then reduces the gradients. No overlap can hide "
        "that. You need a faster network, a larger batch, or fewer bits.",
        _over_ethernet,
        own=False,
    ),
)
