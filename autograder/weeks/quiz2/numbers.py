"""Ten numbers: bubbles, held microbatches, a mesh, MFU, experts, and two from the first weeks."""

from itertools import count

from shardlab.costs import traffic
from shardlab.costs.clock.step import bubble_share
from shardlab.costs.experts import exchange_bytes
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.flops import utilisation

from autograder.checks.quizzes import Answers, quiz_check

GB, MB, TERA = 1e9, 1e6, 1e12


def _mfu(gpus: int, peak: float, billions: float, tokens: float) -> float:
    return 100 * utilisation(6 * billions * GB, tokens * gpus, 1.0, gpus, peak * TERA)


def _sent(tokens: int, k: int, h: int, ep: int) -> float:
    return traffic.all_to_all_bytes(ep, exchange_bytes(tokens, k, h)) / MB


ANSWERS: Answers = {
    1: lambda p, m: 100 * bubble_share(p, m),
    2: lambda p, m, v: 100 * bubble_share(p, m, v),
    3: lambda p, share: next(m for m in count(1) if 100 * bubble_share(p, m) < share),
    4: lambda p, m, i: min(p - i, m),
    5: lambda dp, pp, tp, rank: rank // tp % pp,
    6: _mfu,
    7: _sent,
    8: lambda k, tokens, experts: k * tokens / experts,
    9: lambda mb, nodes, each: traffic.hierarchical_all_reduce_cross_bytes(nodes, each, mb),
    10: lambda billions, n: zero_state_bytes(billions * GB, n, 3).total / GB,
}
BUBBLE = "week 7, the bubble"
WHERE = {1: BUBBLE, 2: "week 8, interleaving", 3: BUBBLE, 4: "week 7, what 1F1B holds", 5: "week 9, coordinates"}
WHERE |= {6: "week 10, MFU", 7: "week 12, the bill", 8: "week 11, capacity"}
WHERE |= {9: "week 1, two levels", 10: "week 3, the bytes of model states"}

CHECK = quiz_check("quiz2.numbers", 2, ANSWERS, WHERE)
