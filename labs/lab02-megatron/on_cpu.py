"""Megatron on CPU ranks: it asks CUDA for the device, random states and streams, and here the CPU answers.

On a GPU nothing needs replacing (`megatron_on("cuda", tp)`).

Use it only in one rank's process, since nothing is restored. For megatron-core 0.16.1.
"""

from typing import Any

import torch
import torch.distributed as dist
from start import import_megatron


class Nothing:
    """A stream or an event whose methods all do nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self  # `stream.record_event()` returns an event

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def megatron_on_cpu(tp: int) -> str:
    """Import megatron-core with the CPU in place of CUDA, create groups of `tp` tensor-parallel ranks, return its
    version.
    """
    return megatron_on("cpu", tp)


def megatron_on(device: str, tp: int) -> str:
    """The same for either device, "cpu" or "cuda"."""
    if device == "cpu":
        _answer_for_cuda()
    version = import_megatron()
    _let_norms_split_sequences()
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import random

    if device == "cpu":
        random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
        random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
    random.model_parallel_cuda_manual_seed(1)
    return version


def _answer_for_cuda() -> None:
    here = torch.device("cpu")
    for module in (torch.cuda, torch.cuda.random):
        setattr(module, "get_rng_state", lambda *_, **__: torch.get_rng_state())  # noqa: B010 - of two modules
        setattr(module, "set_rng_state", lambda state, *_, **__: torch.set_rng_state(state))  # noqa: B010
    torch.cuda.current_device = lambda: here
    torch.cuda.manual_seed = lambda seed: torch.default_generator.manual_seed(int(seed))
    torch.cuda.manual_seed_all = lambda seed: None
    torch.cuda.synchronize = lambda *_, **__: None
    torch.cuda.Stream = torch.cuda.Event = Nothing
    torch.cuda.current_stream = torch.cuda.stream = Nothing
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.record_stream = lambda self, *_: None  # type: ignore[method-assign, assignment]
    plain = dist.all_to_all_single

    def with_lists(output: Any, source: Any, *splits: Any, **options: Any) -> Any:
        names = ("output_split_sizes", "input_split_sizes")
        options |= dict(zip(names, splits, strict=False))
        for name in names:
            if options.get(name) is not None:
                options[name] = [int(size) for size in options[name]]  # gloo wants int
        return plain(output, source, **options)

    dist.all_to_all_single = with_lists


def _let_norms_split_sequences() -> None:
    """Megatron's own CPU norm rejects sequence parallelism; torch's norm with Megatron's attribute works."""
    import megatron.core.models.gpt.gpt_layer_specs as specs
    import megatron.core.transformer.moe.moe_utils as moe
    import megatron.core.transformer.transformer_block as block
    from megatron.core.models import backends

    class Norm(torch.nn.LayerNorm):
        def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
            super().__init__(hidden_size, eps=eps)
            for parameter in self.parameters():
                parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    backends.LNImpl = specs.LNImpl = block.LayerNormImpl = Norm
    moe.te_general_gemm = None  # this name is missing without Transformer Engine
