"""Tensor and sequence parallelism, recomputation: weeks 5 and 6."""

from dataclasses import replace

from shardlab.costs.axis_traffic import activation_bytes_of, tp_layer_bytes, traffic_of_step
from shardlab.costs.clock.setup import FITTED, links_of
from shardlab.costs.layout import Layout
from shardlab.costs.links import all_reduce_seconds, group_of
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.models.flops import hardware_flops_per_token, layer_matmul_flops, model_flops_per_token
from shardlab.costs.models.zoo import gpt
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.study.interview.question import Numbers, Question, Setting

GB, MB = 1e9, 1e6


def _at_most_eight(setting: Setting) -> Numbers:
    """One layer on all GPUs of one server and of two, at achievable matmul and link speeds (`costs.links`)."""
    alone, links = replace(setting.layout, cp=1), links_of(setting.gpu)
    flops = setting.gpu.bf16_flops * FITTED.matmul(setting.gpu.generation)
    work = 3 * layer_matmul_flops(setting.model) * alone.microbatch * setting.model.sequence / flops
    few, many = setting.gpu.per_node, 2 * setting.gpu.per_node
    inside, across = (
        4 * all_reduce_seconds(links, group_of(links, tp), activation_bytes_of(setting.model, alone))
        for tp in (few, many)
    )
    times = (work / few + inside) / (work / many + across)
    seconds = {"work_in": work / few, "work_out": work / many, "inside": inside, "across": across}
    return {name: 1e3 * value for name, value in seconds.items()} | {"few": few, "many": many, "times": times}


def _tensor_bytes(setting: Setting) -> Numbers:
    layout = replace(setting.layout, tp=max(2, setting.layout.tp))
    payload = activation_bytes_of(setting.model, layout)
    step = traffic_of_step(setting.model, layout)
    numbers = {"payload": payload / MB, "sent": ring_all_reduce_bytes(layout.tp, payload) / MB, "tp": layout.tp}
    return numbers | {"step": (step.tp_forward + step.tp_backward) / GB}


def _logits(setting: Setting) -> Numbers:
    tokens = setting.layout.microbatch * setting.model.sequence
    scalars = 3
    logits, sent = 4.0 * tokens * setting.model.vocab, 4.0 * scalars * tokens
    return {"logits": logits / GB, "sent": sent / MB, "scalars": scalars, "ratio": logits / sent}


def _seed_milestone(setting: Setting) -> Numbers:
    small, layout = gpt("twelve layers", 12, 512, 8, sequence=512), Layout(tp=2, microbatch=8)
    payload, step = activation_bytes_of(small, layout), traffic_of_step(small, layout)
    calls = step.tp_forward / ring_all_reduce_bytes(layout.tp, payload)
    speed = 32e9
    numbers = {"layers": small.layers, "batch": layout.microbatch, "sequence": small.sequence, "hidden": small.hidden}
    numbers |= {"calls": calls, "payload": payload / 2**20, "speed": speed / GB}
    return numbers | {"ms": 1e3 * calls * payload / speed, "step": 2 * calls}


def _wider(setting: Setting) -> Numbers:
    narrow, wide, layout = gpt("narrow", 12, 1024, 16), gpt("wide", 12, 2048, 16), Layout(tp=4)
    sent = tp_layer_bytes(wide, layout) / tp_layer_bytes(narrow, layout)
    return {"sent": sent, "flops": layer_matmul_flops(wide) / layer_matmul_flops(narrow)}


def _activations(setting: Setting) -> Numbers:
    s, b, h, a, t = 2048, 1, 20480, 128, 8
    ways = {
        "plain": gpt_layer_activation_bytes(s, b, h, a),
        "tensor": gpt_layer_activation_bytes(s, b, h, a, t),
        "sequence": gpt_layer_activation_bytes(s, b, h, a, t, sequence_parallel=True),
        "selective": gpt_layer_activation_bytes(s, b, h, a, t, sequence_parallel=True, recompute="selective"),
        "full": gpt_layer_activation_bytes(s, b, h, a, t, recompute="full"),
    }
    return {name: value / MB for name, value in ways.items()} | {"h": h, "t": t}


def _again(setting: Setting) -> Numbers:
    once = model_flops_per_token(setting.model)
    more = {how: hardware_flops_per_token(setting.model, how) / once - 1 for how in ("full", "selective")}
    return more | {"name": setting.model.name}


MODEL = (
    Question(
        "week05",
        "Why is tensor parallelism kept within the {few} GPUs of a server?",
        "Because its all-reduces do not shrink with the group and cannot be hidden: the next matmul needs their "
        "result. At {few}, a layer of your model computes for {work_in:.2f} ms and communicates for {inside:.2f} ms "
        "over NVLink. At {many}, it computes for {work_out:.2f} ms and communicates for {across:.2f} ms, through the "
        "network cards of all GPUs at once. So twice the GPUs are only {times:.1f} times as fast. As a second replica "
        "or stage, whose messages can be hidden, they would do nearly twice the work.",
        _at_most_eight,
    ),
    Question(
        "week05",
        "How many bytes does tensor parallel {tp} send for your model?",
        "An all-reduce carries the activation, {payload:.1f} MB per microbatch; in a ring, each rank sends "
        "{sent:.1f} MB. Two in a layer's forward and two in its backward make {step:,.1f} GB per rank and step. "
        "Sequence parallelism sends the same number of bytes, as all-gathers and reduce-scatters.",
        _tensor_bytes,
    ),
    Question(
        "week05",
        "The vocabulary is split. What must ranks exchange for the loss of one microbatch, and what not?",
        "{scalars} numbers per token (the maximum, the sum of exponentials and the target's logit), {sent:.2f} MB in "
        "total. The logits themselves would be {logits:.2f} GB in float32, {ratio:,.0f} times more.",
        _logits,
    ),
    Question(
        "week05",
        "{layers} layers, width {hidden}, a batch of {batch} sequences of {sequence}, two tensor-parallel ranks. How "
        "long does a forward communicate at {speed:.0f} GB/s?",
        "{calls:.0f} all-reduces of {payload:.0f} MiB, about {ms:.1f} ms. Embedding and loss add to that, and with the "
        "backward there are {step:.0f} all-reduces.",
        _seed_milestone,
        own=False,
    ),
    Question(
        "week05",
        "A model gets twice as wide. How do communication and compute of tensor parallelism grow?",
        "At a fixed number of tokens, bytes grow {sent:.0f} times, because activations are as wide as the model, and "
        "FLOPs grow {flops:.0f} times. The ratio falls, so wide models suit tensor parallelism.",
        _wider,
        own=False,
    ),
    Question(
        "week06",
        "A layer of width {h:,} keeps activations on {t} tensor-parallel ranks. What does each technique save?",
        "On one GPU it would keep {plain:,.0f} MB. Tensor parallelism leaves {tensor:,.0f}, since the inputs of norms "
        "and dropouts are not split; sequence parallelism leaves {sequence:,.0f}, and recomputing the attention core "
        "{selective:,.0f}. Full recomputation keeps only the layer's input, {full:,.0f} MB, which is divided by {t} "
        "if the sequence is split.",
        _activations,
        own=False,
    ),
    Question(
        "week06",
        "What does recomputation cost {name}, in FLOPs?",
        "Full recomputation repeats every forward: {full:.0%} more. Recomputing only the attention core costs "
        "{selective:.1%}, and a fused kernel does that in any case. MFU does not count repeated work, HFU does.",
        _again,
    ),
)
