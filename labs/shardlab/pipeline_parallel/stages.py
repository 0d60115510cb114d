"""One stage of a pipeline, as computed by a rank."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shardlab.pipeline_parallel.split_backward import backward_input


class Stage(Protocol):
    """The four passes of a stage, and the buffers for its incoming messages."""

    def forward(self, microbatch: int, activation: Tensor | None) -> Tensor:
        """F. activation: from the previous stage; None in the first stage, which has its own inputs."""
        ...

    def backward(self, microbatch: int, gradient: Tensor | None) -> Tensor | None:
        """B. gradient: of this stage's output; None in the last stage. Returns the input's gradient, if any."""
        ...

    def input_gradient(self, microbatch: int, gradient: Tensor | None) -> Tensor | None:
        """I: like `backward`, but leaves the weights to `weight_gradient`."""
        ...

    def weight_gradient(self, microbatch: int) -> None:
        """W."""
        ...

    def empty_activation(self, microbatch: int) -> Tensor:
        """A buffer for the activation from the previous stage."""
        ...

    def empty_gradient(self, microbatch: int) -> Tensor:
        """A buffer for the gradient from the next stage."""
        ...

    def parameters(self) -> list[nn.Parameter]:
        """The weights, in the same order on every rank that holds this stage."""
        ...


class StageProblem(ValueError):
    """A module cannot be a stage of this pipeline. `execute` adds the stage and the microbatch to the message."""


class ModuleStage:
    """A real module as one stage of a pipeline.

    inputs: the microbatches, for the first stage. input_like: for other stages, a tensor with the shape, dtype and
    device of the input for microbatch 0. Microbatches may differ in their rows (dimension 0). loss: for the last stage,
    (output, microbatch) -> scalar. It is multiplied by `loss_weight`: 1/M for the mean of M equal microbatches, or one
    weight per microbatch. `losses[microbatch]` are the weighted losses, whose sum is the batch's loss.
    A stage without trainable weights has no work in W; if it is the first stage, it has none in B either.
    recompute: keep only the input of each microbatch, and run the forward again when its gradient arrives, for B, or
    once for I and W together (arXiv 2205.05198, section 5: full recomputation).
    module: may be wrapped in torch's DistributedDataParallel; `execute` has it average the gradients once per step.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        inputs: Sequence[Tensor] | None = None,
        input_like: Tensor | None = None,
        loss: Callable[[Tensor, int], Tensor] | None = None,
        loss_weight: float | Sequence[float] = 1.0,
        recompute: bool = False,
    ) -> None:
        if (inputs is None) == (input_like is None):
            raise ValueError("give the first stage its microbatches (inputs=), and every other stage input_like=")
        self.module, self.inputs, self.input_like = module, inputs, input_like
        self.loss, self.loss_weight, self.recompute = loss, loss_weight, recompute
        self.losses: dict[int, Tensor] = {}
        self._alive: dict[int, tuple[Tensor, Tensor]] = {}  # input and output of each microbatch in flight
        self._random: dict[int, RandomNumbers] = {}  # random states of forwards to be recomputed
        self._weights_to_do: dict[int, Callable[[], object]] = {}

    @property
    def device(self) -> torch.device | None:
        """The stage's device; None for a module without weights in a first stage without microbatches."""
        tensors = chain(self.module.parameters(), self.inputs or (), [self.input_like])
        return next((one.device for one in tensors if one is not None), None)

    def forward(self, microbatch: int, activation: Tensor | None) -> Tensor:
        if self.inputs is not None:
            source = self.inputs[microbatch]
        else:
            assert activation is not None
            source = activation.detach()
            source.requires_grad_(source.is_floating_point() or source.is_complex())
        if self.recompute:
            self._random[microbatch] = RandomNumbers(source.device)
        version = source._version
        with torch.set_grad_enabled(not self.recompute):
            output = self._run(source, microbatch)
        if self.recompute and source._version != version:
            raise StageProblem("its module changes its input in place, which recompute=True would repeat: copy it")
        if self.loss is not None:
            self.losses[microbatch] = output.detach()
        self._alive[microbatch] = source, output.to("meta") if self.recompute else output
        return output.detach()

    def backward(self, microbatch: int, gradient: Tensor | None) -> Tensor | None:
        source, output = self._graph_of(microbatch, gradient)
        if output.requires_grad:
            torch.autograd.backward([output], [gradient])
        return None if self.inputs is not None else source.grad

    def input_gradient(self, microbatch: int, gradient: Tensor | None) -> Tensor | None:
        if self.inputs is not None:  # no stage needs the gradient of the data, so the first stage's work is all W
            self._weights_to_do[microbatch] = lambda: self.backward(microbatch, gradient)
            return None
        source, output = self._graph_of(microbatch, gradient)
        self._weights_to_do[microbatch] = backward_input(output, gradient, source)
        return source.grad

    def weight_gradient(self, microbatch: int) -> None:
        self._weights_to_do.pop(microbatch)()

    def empty_activation(self, microbatch: int) -> Tensor:
        assert self.input_like is not None
        return torch.empty_like(self.input_like, memory_format=torch.contiguous_format)

    def empty_gradient(self, microbatch: int) -> Tensor:
        source, output = self._alive[microbatch]
        return torch.empty_like(output, device=source.device, memory_format=torch.contiguous_format)

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _run(self, source: Tensor, microbatch: int) -> Tensor:
        with self.module.no_sync() if isinstance(self.module, DistributedDataParallel) else nullcontext():
            output = self.module(source)
        if self.loss is not None:
            weight = self.loss_weight
            output = self.loss(output, microbatch) * (weight[microbatch] if isinstance(weight, Sequence) else weight)
        if not isinstance(output, Tensor):
            raise StageProblem(f"its module returned a {type(output).__name__}: a stage passes on one tensor")
        if self.loss is not None and output.numel() != 1:
            raise StageProblem(f"its loss has the shape {list(output.shape)}: give one number, such as the mean")
        return output

    def _graph_of(self, microbatch: int, gradient: Tensor | None) -> tuple[Tensor, Tensor]:
        """Input and output with the autograd graph between them, kept since the forward or recomputed."""
        source, output = self._alive.pop(microbatch)
        if output.is_meta:
            with self._random.pop(microbatch).again():
                output = self._run(source, microbatch)
        if gradient is None and output.numel() != 1:
            raise StageProblem(f"it is the last and has no loss, but its output is {list(output.shape)}: give it loss=")
        if gradient is None and not output.requires_grad and self.parameters():
            raise StageProblem("its loss depends on none of its weights: compute it without no_grad() and detach()")
        return source, output


class RandomNumbers:
    """The state of torch's random generators, so that a recomputed dropout drops the same elements."""

    def __init__(self, device: torch.device) -> None:
        self.gpus = [device] if device.type == "cuda" else []
        self.on_cpu, self.on_gpus = torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in self.gpus]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw the same numbers inside. Afterwards the generators continue as if nothing had been drawn."""
        with torch.random.fork_rng(self.gpus):
            torch.set_rng_state(self.on_cpu)
            for gpu, state in zip(self.gpus, self.on_gpus, strict=True):
                torch.cuda.set_rng_state(state, gpu)
            yield
