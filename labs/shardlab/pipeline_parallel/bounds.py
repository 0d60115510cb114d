"""What no schedule can beat: the least time of a step when no rank may hold more than a few activations."""

from shardlab.pipeline_parallel.builders.sizes import need_sizes


def least_makespan(
    num_ranks: int, num_microbatches: int, max_activations: int, *, forward: float = 1.0, backward: float = 2.0
) -> float:
    """Seconds below which no schedule of F and B on P equal stages comes, with C activations per rank at most.

    A microbatch that enters rank 0 leaves it P(F+B) later or after that, and only C are inside. With M = qC + s and
    1 <= s <= C, the last s enter after q such rounds, and the last rank works s(F+B) on them, (P-1)F after they enter
    and (P-1)B before they leave: ((q+1)P + s-1)(F+B). For C >= P the cap does not bind: (M+P-1)(F+B).
    forward, backward: seconds of F and B. Raises ValueError for sizes below 1.
    """
    need_sizes(num_ranks, num_microbatches)
    if max_activations < 1:
        raise ValueError(f"a rank that may hold {max_activations} activations can do nothing: allow 1 or more")
    rounds, last = divmod(num_microbatches - 1, min(max_activations, num_ranks))
    return ((rounds + 1) * num_ranks + last) * (forward + backward)
