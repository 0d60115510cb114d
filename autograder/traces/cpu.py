"""Megatron on a CPU: where it asks CUDA for a device, a stream or a tensor, the CPU answers. Idle is restored."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

CPU = torch.device("cpu")
FACTORIES = ("zeros", "ones", "empty", "tensor", "full", "arange")


class Idle:
    """A stream or an event whose methods all do nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None: ...


def answer_for_cuda() -> None:
    """Replace what these layouts ask of `torch.cuda`, for megatron-core 0.16.1.

    Each name gets its own function: torch's compiler, which Megatron imports, refuses one object under two names.
    """
    cuda: Any = torch.cuda
    cuda.current_device = lambda: CPU
    cuda.synchronize = lambda *_, **__: None
    cuda.manual_seed_all = lambda seed: None
    cuda.manual_seed = lambda seed: torch.default_generator.manual_seed(int(seed))
    for module in (cuda, cuda.random):
        module.get_rng_state = lambda *_, **__: torch.get_rng_state()
        module.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    for name in ("Stream", "Event", "stream", "current_stream", "default_stream"):
        setattr(cuda, name, type(name, (Idle,), {}))
    tensor: Any = torch.Tensor
    tensor.cuda = lambda self, *_, **__: self
    tensor.record_stream = lambda self, *_: None
    plain = tensor.type
    tensor.type = lambda self, *a, **k: (  # the optimizers sort parameters by 'torch.cuda.FloatTensor'
        plain(self, *a, **k) if a or k else plain(self).replace("torch.", "torch.cuda.")
    )
    dist.all_to_all_single = _with_lists(dist.all_to_all_single)
    setattr(torch, "compile", _uncompiled)  # noqa: B010 - saves seconds of imports, and a trace needs Megatron's lines
    for name in FACTORIES:
        setattr(torch, name, _on_cpu(getattr(torch, name)))


def _on_cpu(factory: Any) -> Any:
    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        return factory(*args, device=CPU if "cuda" in str(device) else device, **kwargs)

    return make


def _with_lists(all_to_all: Any) -> Any:
    """Gloo wants splits as lists of int; Megatron passes arrays."""

    def call(output: Any, source: Any, **options: Any) -> Any:
        for name in ("output_split_sizes", "input_split_sizes"):
            options[name] = None if options[name] is None else [int(size) for size in options[name]]
        return all_to_all(output, source, **options)

    return call


def _uncompiled(function: Any = None, **_: Any) -> Any:
    return function if function is not None else _uncompiled
