"""Rules of thumb as claims, the best plans with and without them, and where the planner itself may be wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean

from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan, plan
from shardlab.costs.validation.published import Run
from shardlab.costs.validation.validate import measured_runs, predict

ALL = 1_000_000_000
FEW = 5  # up to this many errors are listed individually


@dataclass(frozen=True)
class Claim:
    """A rule of thumb, the best plan that follows it and the best plan that does not."""

    rule: str
    keeps: Plan | None
    breaks: Plan | None

    @property
    def holds(self) -> bool:
        """Whether the best plan follows the rule."""
        if self.keeps is None or self.breaks is None:
            return self.breaks is None
        return self.keeps.step.total <= self.breaks.step.total


def check_rules(model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int) -> list[Claim]:
    """'TP up to 8, PP across machines, DP last' as claims, each tested on the best plans with and without it.

    Raises ValueError if nothing fits.
    """
    everything = plan(model, gpu, num_gpus, sequences, best=ALL)
    rules = {
        f"tensor parallelism stays inside a server (tp <= {gpu.per_node})": lambda x: x.tp <= gpu.per_node,
        "the model is split by a pipeline across servers (pp > 1)": lambda x: x.pp > 1,
        "data parallelism takes the rest (dp >= pp)": lambda x: x.dp >= x.pp,
    }
    return [
        Claim(
            rule,
            keeps=next((found for found in everything if kept(found.layout)), None),
            breaks=next((found for found in everything if not kept(found.layout)), None),
        )
        for rule, kept in rules.items()
    ]


def known_errors(kept: Callable[[Run], bool]) -> list[float]:
    """Predicted over measured, p/m - 1, for the published runs of one kind."""
    return [predict(run) / run.step_seconds - 1 for run in measured_runs() if run.step_seconds and kept(run)]


def crossing_errors(gpu: Accelerator) -> list[float]:
    """Errors of runs whose tensor parallelism leaves a server of this kind."""
    return known_errors(lambda run: run.layout.tp > run.gpu.per_node and run.gpu.generation == gpu.generation)


def context_errors(gpu: Accelerator) -> list[float]:
    """Errors of runs with context parallelism on this generation."""
    return known_errors(lambda run: run.layout.cp > 1 and run.gpu.generation == gpu.generation)


def fp8_expert_errors(gpu: Accelerator) -> list[float]:
    """Errors of runs with fp8 experts on this generation."""
    return known_errors(lambda run: run.fp8 and run.model.experts > 0 and run.gpu.generation == gpu.generation)


def crossing_doubt(layout: Layout, gpu: Accelerator) -> str:
    """Known errors of predictions for tensor parallelism beyond a server; "" if the layout stays inside."""
    if layout.tp <= gpu.per_node:
        return ""
    return f"tp {layout.tp} leaves a server of {gpu.per_node}. {_known(gpu, 'do so', crossing_errors(gpu))}"


def doubts(layout: Layout, gpu: Accelerator, *, fp8_experts: bool = False) -> list[str]:
    """Sentences about known gaps in a layout's predicted time. fp8_experts: whether experts compute in fp8."""
    said = [one] if (one := crossing_doubt(layout, gpu)) else []
    if layout.cp > 1:
        known = _known(gpu, "use context parallelism", context_errors(gpu))
        said.append(f"cp {layout.cp}: few measured runs hide their messages behind attention this well. {known}")
    if fp8_experts:
        known = _known(gpu, "train experts in fp8", fp8_expert_errors(gpu))
        said.append(f"Experts in fp8 are many small matmuls, whose speed varies most between programs. {known}")
    return said


def _known(gpu: Accelerator, kind: str, errors: list[float]) -> str:
    """Up to five errors individually; for more, their number, mean size and extremes."""
    if not errors:
        known = "there are none"
    elif len(errors) <= FEW:
        known = ", ".join(f"{error:+.0%}" for error in errors)
    else:
        size = mean(map(abs, errors))
        known = f"{len(errors)} runs, {size:.0%} off on average, from {min(errors):+.0%} to {max(errors):+.0%}"
    return f"On published {gpu.generation} runs that {kind}, predicted over measured step time: {known}."
