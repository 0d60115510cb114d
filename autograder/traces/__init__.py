"""Traces of the installed Megatron-Core: it runs on CPU ranks in a child process, and every call is recorded.

`record(layout, rank, places)` returns the trace of one rank; `Trace.next_after(place, visit)` answers "after this line
has been reached for the second time, which collective comes next?". No student code takes part.
"""

from autograder.traces import places
from autograder.traces.child import TraceLost, record
from autograder.traces.layouts import DistributedOptimizer, Experts, Pipeline, SequenceParallel, TensorParallel
from autograder.traces.trace import Call, Place, Trace, Visit

__all__ = [
    "Call",
    "DistributedOptimizer",
    "Experts",
    "Pipeline",
    "Place",
    "SequenceParallel",
    "TensorParallel",
    "Trace",
    "TraceLost",
    "Visit",
    "places",
    "record",
]
