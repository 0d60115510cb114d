"""Three answers from torch's DistributedDataParallel and its communication hooks, and a lecture's claim tested."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "first_bucket": 1 << 20,
    "at_the_start": "_sync_module_states",
    "order": ["to", "div_", "all_reduce", "copy_"],
    "autocast_bytes": 4,
}

CHECK = reading_check(
    "week02.reading",
    READING,
    {
        "first_bucket": "the exact number, not bucket_cap_mb: ask torch.distributed for _DEFAULT_FIRST_BUCKET_BYTES",
        "at_the_start": "look at what __init__ does under `if init_sync:`",
        "order": "decompress is only defined there; it runs when the future completes",
        "autocast_bytes": "print parameter.grad.dtype after a backward under autocast; a bucket holds gradients",
    },
    hints=(
        "Open the named files; each question is answered by a line or two of code.",
        "A number of bytes; a function whose name begins with _; for the order, a definition is not yet a call. "
        "Autocast casts activations, not weights.",
        "One MiB; the function that __init__ calls under init_sync; cast, divide, reduce, and copy the result; a "
        "gradient has the dtype of its weight.",
    ),
)
