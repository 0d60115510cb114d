"""Mixture of experts, expert parallelism and long context: weeks 11, 12 and 14."""

from shardlab.costs.context import imbalance, least_tokens_to_hide, ulysses_sends_less
from shardlab.costs.experts import (
    dropped_share,
    expert_state_bytes,
    expert_tensor_bytes,
    fullest_expert,
    layer_exchange_bytes,
    nodes_of_token,
)
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import find_model
from shardlab.study.interview.question import Numbers, Question, Setting

GB, MB = 1e9, 1e6


def _active(setting: Setting) -> Numbers:
    model = find_model("deepseek-v3")
    total, active = num_parameters(model), num_parameters(model, active=True)
    counts = {"experts": model.experts, "chosen": model.active_experts, "shared": model.shared_experts}
    return counts | {"total": total / 1e9, "active": active / 1e9, "share": active / total}


def _capacity(setting: Setting) -> Numbers:
    rows = 64
    return {"rows": rows, "tight": dropped_share(rows, 1.0), "roomy": dropped_share(rows, 1.25), "factor": 1.25}


def _fullest(setting: Setting) -> Numbers:
    experts, k, tokens = 256, 8, 4096
    full = fullest_expert(experts, k, tokens)
    return {
        "experts": experts,
        "k": k,
        "tokens": tokens,
        "rows": tokens * k / experts,
        "full": full,
        "lost": 1 - 1 / full,
    }


def _spread_or_cut(setting: Setting) -> Numbers:
    gpus, experts, k, hidden, tokens = 8, 64, 6, 2048, 4096
    cut, spread = expert_tensor_bytes(tokens, hidden, gpus), layer_exchange_bytes(tokens, k, hidden, gpus)
    least = next(k for k in range(1, experts) if layer_exchange_bytes(tokens, k, hidden, gpus) > cut)
    return {"gpus": gpus, "experts": experts, "k": k, "spread": spread / MB, "cut": cut / MB, "least": least}


def _visited(setting: Setting) -> Numbers:
    experts, k, nodes, allowed = 256, 8, 8, 4
    free, limited = nodes_of_token(experts, k, nodes), nodes_of_token(experts, k, nodes, allowed)
    return {"experts": experts, "k": k, "nodes": nodes, "allowed": allowed, "free": free, "limited": limited}


def _expert_memory(setting: Setting) -> Numbers:
    model, ep = find_model("deepseek-v3"), 64
    one = expert_state_bytes(model, ep=1).parameters
    return {
        "all": one / GB,
        "ep": ep,
        "each": one / ep / GB,
        "gpus": one / setting.gpu.memory_bytes,
        "gpu": setting.gpu.name,
    }


def _hidden_ring(setting: Setting) -> Numbers:
    share, flops = setting.model.kv_width / setting.model.query_width, setting.gpu.bf16_flops
    links = {"nvlink": setting.gpu.nvlink, "network": setting.gpu.network}
    tokens = {name: least_tokens_to_hide(share, flops=flops, bandwidth=link) for name, link in links.items()}
    context = 2**18
    return tokens | {
        "context": context,
        "most": context / tokens["network"],
        "ratio": 1 / share,
        "gpu": setting.gpu.name,
    }


def _ulysses(setting: Setting) -> Numbers:
    heads, kv = setting.model.heads, setting.model.kv_heads
    sizes = [c for c in range(2, heads + 1) if heads % c == 0]
    less = [str(c) for c in sizes if ulysses_sends_less(c, heads, kv)]
    return {"heads": heads, "kv": kv, "ratio": heads / kv, "less": ", ".join(less) or "none", "most": heads}


def _balance(setting: Setting) -> Numbers:
    c, length = 8, 8 * 1024
    each = length // c
    straight = [[range(r * each, (r + 1) * each)] for r in range(c)]
    half = each // 2
    zigzag = [[range(i * half, (i + 1) * half) for i in (r, 2 * c - 1 - r)] for r in range(c)]
    return {"c": c, "straight": imbalance(straight), "zigzag": imbalance(zigzag)}


def _mean_of_means(setting: Setting) -> Numbers:
    counts = (30, 10)
    sums = (60.0, 10.0)
    mean, local = sum(sums) / sum(counts), sum(s / n for s, n in zip(sums, counts, strict=True)) / len(counts)
    numbers = {"first": counts[0], "second": counts[1], "one": sums[0] / counts[0], "two": sums[1] / counts[1]}
    return numbers | {"mean": mean, "local": local}


EXPERTS = (
    Question(
        "week11",
        "DeepSeek-V3 has {experts} experts per layer. How many of its parameters does a token visit?",
        "{active:.0f} billion of {total:.0f}, {share:.1%}: {chosen} experts and {shared} shared one in each layer, and "
        "everything that is not an expert. FLOPs depend on the active parameters, memory and gradients on all of them.",
        _active,
        own=False,
    ),
    Question(
        "week11",
        "Experts have room for {rows} rows, exactly the mean. What share of the choices does a perfectly fair router "
        "drop?",
        "{tight:.1%}, because a fair random choice is not an even one. With room for {factor} times the mean it is "
        "{roomy:.2%}. Dropping is a choice for speed; without a capacity limit the fullest expert sets the pace.",
        _capacity,
        own=False,
    ),
    Question(
        "week11",
        "{experts} experts, k = {k}, {tokens:,} tokens, a fair router. How full is the fullest expert?",
        "{full:.2f} times the mean of {rows:.0f} rows, so experts wait {lost:.0%} of the time even without any skew. "
        "More tokens per expert make the load more even.",
        _fullest,
        own=False,
    ),
    Question(
        "week12",
        "EP {gpus} or TP {gpus} for {experts} experts with k = {k}?",
        "EP sends {spread:.0f} MB per GPU in a forward, TP {cut:.0f} MB. EP's bytes grow with k, TP's do not, so TP "
        "sends less from k = {least} on. EP also keeps matrices whole and wide. TP is balanced no matter what the "
        "router does.",
        _spread_or_cut,
        own=False,
    ),
    Question(
        "week12",
        "{experts} experts on {nodes} nodes, k = {k}. How many nodes does a token visit?",
        "{free:.2f} on average, and {limited:.2f} if it may choose from only {allowed} nodes. One copy per node is "
        "enough, so this number, not k, determines the bytes on the slow links.",
        _visited,
        own=False,
    ),
    Question(
        "week12",
        "What do the routed experts of DeepSeek-V3 weigh in bf16, and why is EP {ep} used?",
        "{all:,.0f} GB, the whole memory of {gpus:.1f} {gpu} for weights alone. Over {ep} ranks it is {each:.1f} GB "
        "each, before gradients and optimizer. Gradients of an expert are summed only over its copies, but divided by "
        "the number of all ranks with tokens.",
        _expert_memory,
    ),
    Question(
        "week14",
        "Your model gets a context of {context:,} tokens on {gpu}. On how many ranks can a ring run before its "
        "messages are exposed?",
        "Communication in a causal, balanced ring is hidden if a rank has {nvlink:,.0f} tokens on NVLink or "
        "{network:,.0f} on the network, because keys and values are {ratio:.0f} times narrower than queries. So you "
        "can use up to {most:.0f} ranks across the network.",
        _hidden_ring,
    ),
    Question(
        "week14",
        "{heads} heads, {kv} key-value heads. For which sizes does Ulysses send less than a ring?",
        "Among sizes that divide the heads: {less}. The rule is c > 1 + h/h_kv, and h/h_kv is {ratio:.0f} here; beyond "
        "{kv} ranks, keys must be sent several times. It cannot use more than {most} ranks at all, because it splits "
        "heads.",
        _ulysses,
    ),
    Question(
        "week14",
        "A causal mask over {c} ranks: how much more work does the last rank do than the mean, and what helps?",
        "{straight:.2f} times the mean, with one contiguous piece per rank. Zigzag gives each rank one piece from the "
        "front and its mirror image from the back, which makes it {zigzag:.2f}. With several documents even zigzag is "
        "uneven.",
        _balance,
        own=False,
    ),
    Question(
        "week14",
        "One sequence is split over two ranks. One has {first} valid targets with mean loss {one:.1f}, the other "
        "{second} with {two:.1f}. What is the loss?",
        "{mean:.3f}: the sum of all losses divided by the number of all targets. The mean of the two means is "
        "{local:.3f}. It is not only a wrong number in the log but the wrong objective: gradients of the rank with "
        "few targets count too much.",
        _mean_of_means,
        own=False,
    ),
)
