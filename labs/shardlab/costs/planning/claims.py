"""Rules of thumb as claims, what the planner finds best with and without them, and where it may be wrong itself."""

from dataclasses import dataclass

from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.model import Transformer
from shardlab.costs.planning.neighbours import cuts_gradients_in_a_pipeline
from shardlab.costs.planning.planner import Plan, plan
from shardlab.costs.validation.validate import measured_runs, predict

ALL = 1_000_000_000


@dataclass(frozen=True)
class Claim:
    """A rule of thumb beside what the planner finds: the best plan that keeps it and the best that does not."""

    rule: str
    keeps: Plan | None
    breaks: Plan | None

    @property
    def holds(self) -> bool:
        """Whether the best plan keeps the rule."""
        if self.keeps is None or self.breaks is None:
            return self.breaks is None
        return self.keeps.step.total <= self.breaks.step.total


def check_rules(model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int) -> list[Claim]:
    """'TP up to 8, PP across machines, DP last' as claims: each is tested on the best plans with and without it.

    Raises ValueError when nothing fits.
    """
    everything = plan(model, gpu, num_gpus, sequences, best=ALL)
    rules = {
        f"tensor parallelism stays inside a server (tp <= {gpu.per_node})": lambda x: x.tp <= gpu.per_node,
        "the model is cut by a pipeline across servers (pp > 1)": lambda x: x.pp > 1,
        "data parallelism takes what is left (dp >= pp)": lambda x: x.dp >= x.pp,
    }
    return [
        Claim(
            rule,
            keeps=next((found for found in everything if kept(found.layout)), None),
            breaks=next((found for found in everything if not kept(found.layout)), None),
        )
        for rule, kept in rules.items()
    ]


def crossing_errors(gpu: Accelerator) -> list[float]:
    """Predicted against measured, p/m - 1, on published runs whose tensor parallelism leaves a server of this kind."""
    return [
        predict(run) / run.step_seconds - 1
        for run in measured_runs()
        if run.step_seconds and run.layout.tp > run.gpu.per_node and run.gpu.generation == gpu.generation
    ]


def crossing_doubt(layout: Layout, gpu: Accelerator) -> str:
    """What is known of predictions for a layout whose tensor parallelism leaves a server; "" where it stays inside."""
    if layout.tp <= gpu.per_node:
        return ""
    errors = crossing_errors(gpu)
    known = ", ".join(f"{error:+.0%}" for error in errors) if errors else "none is known"
    return (
        f"tp {layout.tp} leaves a server of {gpu.per_node}. On published {gpu.generation} runs that do so, predicted "
        f"against measured step time: {known}."
    )


def doubts(layout: Layout, gpu: Accelerator) -> list[str]:
    """Sentences on what the time of a layout leaves out, or is known to miss."""
    said = [one] if (one := crossing_doubt(layout, gpu)) else []
    if cuts_gradients_in_a_pipeline(layout):
        said.append("ZeRO 2 beside a pipeline reduces gradients in every microbatch; the time counts it once per step.")
    return said
