"""Run Megatron for each layout, in a rank's process. Imports are inside functions: the recorder wraps torch first."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import torch

from autograder.traces.layouts import DistributedOptimizer, Experts, Pipeline, SequenceParallel, TensorParallel

Visits = AbstractContextManager[None]
MODULES = {
    "TensorParallel": ("tensor_parallel", "transformer"),
    "SequenceParallel": ("tensor_parallel", "transformer"),
    "Pipeline": ("pipeline_parallel", "transformer", "transformer.module"),
    "DistributedOptimizer": ("distributed", "optimizer", "transformer"),
    "Experts": ("transformer", "transformer.moe.token_dispatcher"),
}


def load(kind: str) -> None:
    """Import what a layout needs, without the warnings about packages that a GPU would use."""
    warnings.filterwarnings("ignore")
    for name in MODULES[kind]:
        import_module(f"megatron.core.{name}")
    if kind == "DistributedOptimizer":
        import_module("torch._dynamo")  # torch.optim imports it at first use, which would be in every rank


def _config(h: int, layers: int = 4, **options: Any) -> Any:
    from megatron.core.transformer import TransformerConfig

    options |= {"use_cpu_initialization": True, "gradient_accumulation_fusion": False}
    return TransformerConfig(
        num_layers=layers, hidden_size=h, num_attention_heads=h, params_dtype=torch.float32, **options
    )


def _initialize(tp: int = 1, pp: int = 1, virtual: int | None = None, *, ep: int = 1) -> None:
    from megatron.core import parallel_state

    parallel_state.initialize_model_parallel(
        tp, pp, virtual, expert_model_parallel_size=ep, create_gloo_process_groups=False
    )


def tensor_parallel(layout: TensorParallel, visits: Visits) -> None:
    """Embedding, MLPs, head and loss, forward and backward."""
    from megatron.core.tensor_parallel import VocabParallelEmbedding, vocab_parallel_cross_entropy
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear

    _initialize(layout.tp)
    config = _config(layout.h, tensor_model_parallel_size=layout.tp)
    rest: dict[str, Any] = {"config": config, "init_method": torch.nn.init.ones_, "bias": False}
    embedding = VocabParallelEmbedding(layout.vocabulary, layout.h, init_method=rest["init_method"], config=config)
    layers = []
    for _ in range(layout.blocks):
        layers += [ColumnParallelLinear(layout.h, layout.f, gather_output=False, **rest)]
        layers += [RowParallelLinear(layout.f, layout.h, input_is_parallel=True, skip_bias_add=False, **rest)]
    layers += [ColumnParallelLinear(layout.h, layout.vocabulary, gather_output=False, **rest)]
    tokens = torch.zeros(layout.s, layout.b, dtype=torch.long)
    with visits:
        x = embedding(tokens)
        for layer in layers:
            x = layer(x)[0]
        vocab_parallel_cross_entropy(x, tokens).sum().backward()


def sequence_parallel(layout: SequenceParallel, visits: Visits) -> None:
    """An MLP between parts of a sequence, and a gather of its output."""
    from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear

    _initialize(layout.tp)
    config = _config(layout.h, tensor_model_parallel_size=layout.tp, sequence_parallel=layout.tp > 1)
    rest: dict[str, Any] = {"config": config, "init_method": torch.nn.init.ones_, "bias": False}
    up = ColumnParallelLinear(layout.h, layout.f, gather_output=False, **rest)
    down = RowParallelLinear(layout.f, layout.h, input_is_parallel=True, skip_bias_add=False, **rest)
    x = torch.ones(layout.s // layout.tp, layout.b, layout.h, requires_grad=True)
    with visits:
        y = gather_from_sequence_parallel_region(
            down(up(x)[0])[0], tensor_parallel_output_grad=not layout.whole_gradient
        )
        y.sum().backward()


def pipeline(layout: Pipeline, visits: Visits) -> None:
    """One step of a pipeline whose chunks are single linear layers."""
    from megatron.core.pipeline_parallel import get_forward_backward_func

    virtual = layout.chunks if layout.chunks > 1 else None
    _initialize(layout.tp, layout.pp, virtual)
    config = _config(
        layout.h,
        layout.pp * layout.chunks,
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=virtual,
        sequence_parallel=layout.sequence_parallel,
        pipeline_dtype=torch.float32,
        overlap_p2p_comm=layout.overlap,
        batch_p2p_comm=not layout.overlap,
    )
    rows = layout.s // layout.tp if layout.sequence_parallel else layout.s
    model = [_chunk(config, number if virtual else None) for number in range(layout.chunks)]
    batches = [iter([torch.ones(rows, layout.b, layout.h)] * layout.microbatches) for _ in model]

    def step(batches: Any, chunk: Any) -> Any:
        return chunk(next(batches)), lambda y: (y.sum(), {"loss": y.detach().sum()})

    with visits:
        get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=batches if virtual else batches[0],
            model=model if virtual else model[0],
            num_microbatches=layout.microbatches,
            seq_length=layout.s,
            micro_batch_size=layout.b,
            forward_only=False,
        )


def _chunk(config: Any, number: int | None) -> Any:
    from megatron.core.enums import ModelType
    from megatron.core.transformer.module import MegatronModule

    class Chunk(MegatronModule):
        def __init__(self) -> None:
            super().__init__(config)
            self.vp_stage, self.model_type = number, ModelType.encoder_or_decoder
            self.linear, self.received = torch.nn.Linear(config.hidden_size, config.hidden_size), None

        def set_input_tensor(self, tensor: Any) -> None:
            self.received = tensor[0] if isinstance(tensor, list) else tensor

        def forward(self, x: Any) -> Any:
            return self.linear(x if self.received is None else self.received)

    return Chunk()


def distributed_optimizer(layout: DistributedOptimizer, visits: Visits) -> None:
    """Two training steps with gradients, clipping and an update."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    _initialize()
    settings = DistributedDataParallelConfig(
        use_distributed_optimizer=True,
        overlap_grad_reduce=layout.overlap,
        overlap_param_gather=layout.overlap,
        bucket_size=layout.bucket if layout.overlap else None,
    )
    pairs = zip(layout.widths, layout.widths[1:], strict=False)
    inner: Any = torch.nn.Sequential(*(torch.nn.Linear(*pair, bias=False) for pair in pairs))
    inner.config = config = _config(8)
    with visits:
        model = DistributedDataParallel(config, settings, inner)
        adam = OptimizerConfig(
            optimizer="adam",
            lr=0.01,
            use_distributed_optimizer=True,
            clip_grad=1.0,
            overlap_param_gather=layout.overlap,
            params_dtype=torch.float32,
        )
        optimizer = get_megatron_optimizer(adam, [model], use_gloo_process_groups=False)
        for _ in range(2):
            model.zero_grad_buffer()
            optimizer.zero_grad()
            model(torch.ones(4, layout.widths[0])).sum().backward()
            finalize_model_grads([model])
            optimizer.step()


def experts(layout: Experts, visits: Visits) -> None:
    """Dispatch, experts that only weight their rows, and combine, forward and backward."""
    from megatron.core.transformer.moe.moe_utils import get_default_pg_collection
    from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher

    _initialize(ep=layout.world)
    mine = layout.routes[torch.distributed.get_rank()]
    config = _config(
        layout.h,
        num_moe_experts=layout.experts,
        moe_router_topk=len(mine[0]),
        expert_model_parallel_size=layout.world,
        moe_token_dispatcher_type="alltoall",
        add_bias_linear=False,
    )
    own = layout.experts // layout.world
    first = torch.distributed.get_rank() * own
    dispatcher = MoEAlltoAllTokenDispatcher(
        own, list(range(first, first + own)), config, pg_collection=get_default_pg_collection()
    )
    chosen = torch.zeros(len(mine), layout.experts, dtype=torch.bool)
    for token, experts_of_token in enumerate(mine):
        chosen[token, list(experts_of_token)] = True
    weights = (chosen.float() / len(mine[0])).requires_grad_()
    x = torch.ones(len(mine), 1, layout.h, requires_grad=True)
    with visits:
        rows, row_weights = dispatcher.token_dispatch(*dispatcher.dispatch_preprocess(x, chosen, weights))
        rows, _, weights_of_rows = dispatcher.dispatch_postprocess(rows, row_weights)
        assert weights_of_rows is not None
        rows = dispatcher.combine_preprocess(rows * weights_of_rows[:, None])
        dispatcher.combine_postprocess(dispatcher.token_combine(rows)).sum().backward()


RUNS: dict[str, Callable[[Any, Visits], None]] = {
    "TensorParallel": tensor_parallel,
    "SequenceParallel": sequence_parallel,
    "Pipeline": pipeline,
    "DistributedOptimizer": distributed_optimizer,
    "Experts": experts,
}
