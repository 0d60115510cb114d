"""A question of the oral bank, and the setting whose numbers it uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from shardlab.costs import failures
from shardlab.costs.clock.step import StepSeconds
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import MemoryBytes, peak_memory
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer, num_parameters
from shardlab.costs.planning.planner import GRADIENT_BYTES, seconds_of

Numbers = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Setting:
    """The learner's own numbers: a model on a cluster in a layout, and the costs and failures of training it.

    tokens: of the whole run. hours_of_one: between two failures of one GPU. storage: bytes per second at which a
    checkpoint is written. restart_seconds: from a failure until work continues. dollars: per GPU hour.
    """

    model: Transformer
    layout: Layout
    gpu: Accelerator
    tokens: float
    hours_of_one: float = 50_000.0
    storage: float = 2e11
    restart_seconds: float = 600.0
    dollars: float = 2.0

    @cached_property
    def parameters(self) -> int:
        return num_parameters(self.model)

    @cached_property
    def memory(self) -> MemoryBytes:
        return peak_memory(self.model, self.layout, gradient_bytes=GRADIENT_BYTES)

    @cached_property
    def step(self) -> StepSeconds:
        return seconds_of(self.model, self.layout, self.gpu)

    @property
    def tokens_per_step(self) -> int:
        return self.layout.sequences_per_step * self.model.sequence

    @property
    def mfu(self) -> float:
        """The share of the peak FLOP/s, counting attention without its causal mask."""
        per_token, seconds = model_flops_per_token(self.model), self.step.total
        return utilisation(per_token, self.tokens_per_step, seconds, self.layout.world, self.gpu.bf16_flops)

    @property
    def days(self) -> float:
        """Days of training, without failures."""
        return self.tokens / self.tokens_per_step * self.step.total / 86400

    @property
    def between(self) -> float:
        """Mean seconds between two failures of the run."""
        return failures.mean_seconds_between(self.layout.world, 3600 * self.hours_of_one)

    @property
    def save_seconds(self) -> float:
        return failures.checkpoint_bytes(self.parameters) / self.storage


@dataclass(frozen=True)
class Question:
    """asked, answer: texts with numbers in braces, which `numbers` computes for a setting.

    week: the week that prepares it, such as "week07". own: whether its numbers depend on the setting.
    """

    week: str
    asked: str
    answer: str
    numbers: Callable[[Setting], Numbers]
    own: bool = True
