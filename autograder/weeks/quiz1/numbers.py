"""Ten numbers: rings, efficiency, ZeRO, tensor parallelism, activations."""

from shardlab.costs import traffic
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.memory.states import shard_elements, zero_state_bytes
from shardlab.costs.overlap import efficiency

from autograder.checks.quizzes import Answers, quiz_check

GB, MB, BF16 = 1e9, 1e6, 2


def _ring_ms(mb: float, n: int, gbps: float, us: float) -> float:
    return 2 * (n - 1) * us / 1e3 + traffic.ring_all_reduce_bytes(n, mb * MB) / (gbps * GB) * 1e3


ANSWERS: Answers = {
    1: lambda mb, n: traffic.ring_all_reduce_bytes(n, mb),
    2: lambda n: 2 * (n - 1),
    3: _ring_ms,
    4: lambda compute, communicate, hidden: 100 * efficiency(compute, communicate - hidden),
    5: lambda billions, n: zero_state_bytes(billions * GB, n, 1).total / GB,
    6: lambda billions, n: zero_state_bytes(billions * GB, n, 2).total / GB,
    7: lambda billions, n: traffic.zero_bytes(n, BF16 * billions * GB, 3) / GB,
    8: lambda parameters, n: shard_elements(parameters, n)[0],
    9: lambda t, b, s, h: 4 * traffic.ring_all_reduce_bytes(t, BF16 * b * s * h) / MB,
    10: lambda t, b, s, h, a: gpt_layer_activation_bytes(s, b, h, a, t, sequence_parallel=True) / MB,
}
RING, ZERO = "week 1, the ring", "week 3, the bytes of model states"
WHERE = {1: RING, 2: RING, 3: "week 1, seconds of a ring", 4: "week 2, efficiency", 5: ZERO, 6: ZERO}
WHERE |= {7: "week 4, three times the model", 8: "week 3, padding", 9: "week 5, the bill", 10: "week 6, activations"}

CHECK = quiz_check("quiz1.numbers", 1, ANSWERS, WHERE)
