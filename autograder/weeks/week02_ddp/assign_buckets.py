"""Which parameters share a message: lists of parameter numbers, from the last parameter to the first."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, shown, trouble_in_call, value_of
from autograder.weeks.week02_ddp.average_gradients import MASKED


def expected_buckets(case: Case) -> list[list[int]]:
    """Fill buckets greedily. A parameter larger than a bucket gets its own bucket."""
    sizes, most = case["sizes"], case["bucket_bytes"]
    buckets: list[list[int]] = []
    for number in reversed(range(len(sizes))):
        if not buckets or sum(sizes[other] for other in buckets[-1]) + sizes[number] > most:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def _judge_buckets(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = value_of(reply), task.expected[0]
    if problem := _no_partition(received, len(case["sizes"])):
        return problem
    received = [list(bucket) for bucket in received]
    if received == expected:
        return None
    if [number for bucket in received for number in bucket] != [number for bucket in expected for number in bucket]:
        return f"For ({shown(case)}): the backward ends with parameter 0. Start with the last one, and keep that order."
    place = next(place for place, bucket in enumerate(received) if place >= len(expected) or bucket != expected[place])
    filled = sum(case["sizes"][number] for number in received[place])
    if filled > case["bucket_bytes"] and len(received[place]) > 1:
        return f"For ({shown(case)}): bucket {place} has {filled} bytes, more than {case['bucket_bytes']}."
    return f"For ({shown(case)}): bucket {place} is {received[place]}, but the next parameter would have fit, too."


def _no_partition(received: Any, num_parameters: int) -> str | None:
    if not isinstance(received, list | tuple) or not all(isinstance(bucket, list | tuple) for bucket in received):
        return "Return a list of lists of parameter numbers."
    numbers = [number for bucket in received for number in bucket]
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(num_parameters)):
        return (
            f"Each of the parameters 0 to {num_parameters - 1} must be in exactly one bucket; yours: {received!r:.200}"
        )
    if not all(received):
        return "A bucket is empty. Even an empty bucket costs a message."
    return None


def _draw_buckets(rng: Random) -> list[Case]:
    drawn = [[4 * rng.randint(1, 50) for _ in range(rng.randint(4, 12))] for _ in range(4)]
    return [
        *({"sizes": sizes, "bucket_bytes": rng.randint(60, 220)} for sizes in drawn),
        {"sizes": [8 * size for size in (1, 1, 2, 2, 1, 1)], "bucket_bytes": 16},  # full to the last byte
        {"sizes": [40, 4, rng.randint(65, 400), 4, 4], "bucket_bytes": 64},  # one is larger than a bucket
        {"sizes": [rng.randint(1, 99)], "bucket_bytes": 100},
        {"sizes": drawn[0], "bucket_bytes": 1},
        {"sizes": drawn[1], "bucket_bytes": 10**6},
    ]


CHECK = Check(
    exercise="week02.assign-buckets",
    points=2,
    names=("assign_buckets",),
    public=(
        {"sizes": [100, 40, 60, 20], "bucket_bytes": 100},
        {"sizes": [8, 8, 400, 8], "bucket_bytes": 64},
        {"sizes": [8, 8, 16, 400], "bucket_bytes": 16},
    ),
    draw=_draw_buckets,
    make=formula_task("assign_buckets", ("sizes", "bucket_bytes"), expected_buckets),
    judge=_judge_buckets,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "Two rules: parameters come in backward order, and a bucket stays open until the next parameter does not fit.",
        "Track how many bytes the open bucket has. A parameter that does not fit opens the next one.",
        "for number in reversed(range(len(sizes))): open a bucket if there is none or it would overflow; then append",
    ),
)
