"""Pipelines, zero bubble, DualPipe, and axes combined: weeks 7, 8, 9 and 13."""

from shardlab.costs.axis_traffic import activation_bytes_of, gradient_bytes, traffic_of_step
from shardlab.costs.clock.step import bubble_share
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import in_flight_layers
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.zoo import find_model
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.study.interview.question import Numbers, Question, Setting

GB, MB = 1e9, 1e6


def _stages(setting: Setting) -> int:
    return max(2, setting.layout.pp)


def _smallest_m(setting: Setting) -> Numbers:
    p, share = _stages(setting), 0.10
    m = next(m for m in range(1, 10_000) if bubble_share(p, m) < share)
    return {"p": p, "share": share, "m": m, "bubble": bubble_share(p, m), "before": bubble_share(p, m - 1)}


def _two_stages(setting: Setting) -> Numbers:
    return {"p": 2} | {f"m{m}": 1 - bubble_share(2, m) for m in (1, 4, 8)} | {"few": 1, "some": 4, "many": 8}


def _held(setting: Setting) -> Numbers:
    p, layers = _stages(setting), setting.model.layers
    m = max(setting.layout.num_microbatches, p)
    held = {
        name: in_flight_layers(setting.model, Layout(pp=p, num_microbatches=m, schedule=name), 0) / -(-layers // p)
        for name in ("1f1b", "gpipe")
    }
    last = in_flight_layers(setting.model, Layout(pp=p, num_microbatches=m), p - 1) / (layers // p)
    return {"p": p, "m": m, "first": held["1f1b"], "gpipe": held["gpipe"], "last": last}


def _chunks(setting: Setting) -> Numbers:
    p, v = _stages(setting), 2
    m = max(setting.layout.num_microbatches // p, 1) * p
    one, two = (Layout(pp=p, num_microbatches=m, virtual=chunks) for chunks in (1, v))
    more = in_flight_layers(setting.model, two) / in_flight_layers(setting.model, one)
    sent = traffic_of_step(setting.model, two).pp_forward / traffic_of_step(setting.model, one).pp_forward
    numbers = {"plain": bubble_share(p, m), "bubble": bubble_share(p, m, v), "more": more, "sent": sent}
    return {"p": p, "m": m, "v": v} | numbers


def _zero_bubble(setting: Setting) -> Numbers:
    p, extra = _stages(setting), 0.1
    least, saved = 2 * (p - 1) / extra, 2 * (p - 1)
    return {"p": p, "plain": 3 * (p - 1), "left": p - 1, "saved": saved, "extra": extra, "least": least}


def _traffic_175b(setting: Setting) -> Numbers:
    model, layout = find_model("gpt3-175b"), Layout(tp=8, pp=4, dp=32)
    payload, step = activation_bytes_of(model, layout), traffic_of_step(model, layout)
    sent = {"payload": payload / MB, "sent": ring_all_reduce_bytes(layout.tp, payload) / MB}
    sent |= {"tensor": step.tp_forward / GB, "boundary": step.pp_forward / MB}
    sizes = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp}
    return sizes | sent | {"gradients": gradient_bytes(model, layout, stage=1) / GB}


def _own_traffic(setting: Setting) -> Numbers:
    sent, layout = traffic_of_step(setting.model, setting.layout, 0), setting.layout
    axes = {"tp": sent.tp_forward + sent.tp_backward, "pp": sent.pp_forward + sent.pp_backward, "dp": sent.dp}
    axes["cp"] = sent.cp_forward + sent.cp_backward
    most = max(axes, key=axes.__getitem__)
    sizes = {f"size_{axis}": getattr(layout, axis) for axis in axes}
    return {axis: value / GB for axis, value in axes.items()} | sizes | {"most": most}


def _who_leaves(setting: Setting) -> Numbers:
    layout, inside = setting.layout, setting.gpu.per_node
    spans, below = {}, 1
    for axis in ("tp", "cp", "dp", "pp"):
        spans[axis] = below * (getattr(layout, axis) - 1) + 1
        below *= getattr(layout, axis)
    leaves = [axis for axis, span in spans.items() if span > inside]
    return spans | {"inside": inside, "leaves": ", ".join(leaves) or "none", "world": layout.world}


def _dualpipe(setting: Setting) -> Numbers:
    p = 8
    plain, halves = 3 * (p - 1), 2 * (p // 2 - 1)
    forward, backward, exchange = 10.0, 20.0, 6.0
    apart = forward + backward + 4 * exchange
    pair = {"apart": apart, "together": max(forward + backward, 4 * exchange), "exchange": exchange}
    return {"p": p, "plain": plain, "dualpipe": halves, "held": p + 1} | pair


def _two_copies(setting: Setting) -> Numbers:
    shard = setting.parameters / (setting.layout.tp * _stages(setting))
    states = zero_state_bytes(shard, setting.layout.state_sharers, 1, gradient_bytes=4)
    return {"one": states.total / GB, "more": (states.parameters + states.gradients) / GB, "p": _stages(setting)}


SCHEDULE = (
    Question(
        "week07",
        "How many microbatches does a pipeline of {p} stages need for a bubble below {share:.0%}?",
        "At least {m}: (p−1)/(m+p−1) is then {bubble:.2%}, and with one fewer {before:.2%}, which is not below. "
        "Another way to shrink the bubble is more chunks, not more GPUs.",
        _smallest_m,
    ),
    Question(
        "week07",
        "Two stages. What is their utilization with {few}, {some} and {many} microbatches, and compared with what?",
        "{m1:.0%}, {m4:.0%} and {m8:.0%} of {p} GPUs. A pipeline is not slower than one GPU; these are its shares of "
        "the ideal, {p} times the speed of one GPU.",
        _two_stages,
        own=False,
    ),
    Question(
        "week07",
        "{p} stages, {m} microbatches. How many microbatches does a stage hold with GPipe and with 1F1B?",
        "GPipe holds all {gpipe:.0f}. 1F1B holds {first:.0f} on the first stage and {last:.0f} on the last, because a "
        "stage starts a backward as soon as it can. The bubble is the same; 1F1B is used to save memory.",
        _held,
    ),
    Question(
        "week08",
        "You split each of {p} stages into {v} chunks, with {m} microbatches. What do you gain, and what does it cost?",
        "The bubble falls from {plain:.1%} to {bubble:.1%}. The first stage holds {more:.2f} times the activations, "
        "and messages between stages take {sent:.0f} times the bytes. The number of microbatches must be a multiple "
        "of {p}.",
        _chunks,
    ),
    Question(
        "week08",
        "{p} stages, and F, I and W take one unit each. When does plain 1F1B beat ZB-H1?",
        "1F1B idles for {plain} units, ZB-H1 for {left}, so it saves {saved} units once per step. Splitting the "
        "backward costs something in every microbatch. If that is {extra} units, 1F1B wins with more than {least:.0f} "
        "microbatches.",
        _zero_bubble,
    ),
    Question(
        "week09",
        "GPT-3 175B with TP {tp}, PP {pp}, DP {dp}: what does a forward and a backward send?",
        "A tensor-parallel all-reduce carries {payload:.1f} MB, and a rank sends {sent:.1f} MB for it. That makes "
        "{tensor:.2f} GB per microbatch in the forward and as much in the backward. A stage boundary takes "
        "{boundary:.1f} MB each way. Gradients and weights are sent once per step, {gradients:.1f} GB per rank.",
        _traffic_175b,
        own=False,
    ),
    Question(
        "week09",
        "What does each axis of your own layout send in a step, and which one sends most?",
        "Per rank, TP {size_tp} sends {tp:,.1f} GB, CP {size_cp} {cp:,.1f} GB, PP {size_pp} {pp:,.1f} GB and DP "
        "{size_dp} {dp:,.1f} GB. The largest share is from {most}. Bytes alone do not decide: they use different "
        "links, and some can be hidden.",
        _own_traffic,
    ),
    Question(
        "week09",
        "Ranks are numbered with tensor parallelism fastest, then context, data, pipeline. Which of your axes leave a "
        "server of {inside}?",
        "Out of {world} ranks, a group spans {tp} neighboring ranks on the tensor axis, {cp} on context, {dp} on data "
        "and {pp} on the pipeline. Those that span more than {inside} leave the server: {leaves}.",
        _who_leaves,
    ),
    Question(
        "week13",
        "How does DualPipe overlap, and what does it cost, on {p} ranks with F, I and W of one unit?",
        "Microbatches enter at both ends, so a forward of one direction runs at the same time as a backward of the "
        "other: the all-to-alls of one overlap the computation of the other. A pair takes {together:.0f} ms; one after "
        "the other, with four all-to-alls of {exchange:.0f} ms, they took {apart:.0f} ms. The bubble is {dualpipe} "
        "units instead of 1F1B's {plain}. The price is {held} microbatches in flight and two copies of the parameters.",
        _dualpipe,
        own=False,
    ),
    Question(
        "week13",
        "How many GB would DualPipe's second copy of the parameters cost your model on {p} stages?",
        "{more:.1f} GB of weights and gradients in addition to {one:.1f} GB of states. The optimizer need not be "
        "doubled, because the gradients of both copies are added once, after the last W. With experts spread over many "
        "ranks, the cost is acceptable.",
        _two_copies,
    ),
)
