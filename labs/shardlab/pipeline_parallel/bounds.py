"""A lower bound for all schedules: the shortest step if each rank may hold only a few activations."""

from shardlab.pipeline_parallel.builders.lane import need_sizes


def least_makespan(
    num_ranks: int, num_microbatches: int, max_activations: int, *, forward: float = 1.0, backward: float = 2.0
) -> float:
    """The least seconds of any schedule of F and B on P equal stages, with at most C activations per rank.

    A microbatch that enters rank 0 leaves it at least P(F+B) later, and only C can be inside at once. With M = qC + s
    and 1 <= s <= C, the last s enter after q such rounds. The last rank works s(F+B) on them, starting (P-1)F after
    they enter and ending (P-1)B before they leave: ((q+1)P + s-1)(F+B). For C >= P the cap has no effect: (M+P-1)(F+B).
    forward, backward: seconds of F and B. Raises ValueError for sizes below 1.
    """
    need_sizes(num_ranks, num_microbatches)
    if max_activations < 1:
        raise ValueError(f"max_activations = {max_activations} lets a rank do nothing: allow 1 or more")
    rounds, last = divmod(num_microbatches - 1, min(max_activations, num_ranks))
    return ((rounds + 1) * num_ranks + last) * (forward + backward)
