"""A plan as plain data: what `shardlab plan` prints and what --json outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from shardlab.costs.clock.setup import Setup
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.batch import TokenBatch, exact_batch, shared_batch
from shardlab.costs.planning.claims import doubts
from shardlab.costs.planning.long_run import long_run
from shardlab.costs.planning.neighbours import Neighbour, neighbours
from shardlab.costs.planning.planner import GRADIENT_BYTES, NothingFits, Plan, Search, plan
from shardlab.costs.uncertainty import step_interval
from shardlab.meant import instead
from shardlab.pipeline_parallel.timed import played_clock, timed

PLAYED = 8  # minimum number of plans to time slot by slot


@dataclass(frozen=True)
class Task:
    """The planner's input: a model, GPUs, a batch and the search space."""

    model: Transformer
    gpu: Accelerator
    gpus: int
    batch: TokenBatch
    search: Search
    fp8: bool
    imbalance: float

    @property
    def setup(self) -> Setup:
        return Setup(self.gpu, fp8=self.fp8, gradient_bytes=GRADIENT_BYTES, imbalance=self.imbalance)

    def plans(self, best: int, search: Search | None = None) -> list[Plan]:
        """The fastest plans, timed slot by slot with each chunk's actual layers. Raises NothingFits."""
        found = plan(
            self.model,
            self.gpu,
            self.gpus,
            self.batch.sequences,
            search=search or self.search,
            fp8=self.fp8,
            imbalance=self.imbalance,
            best=max(best, PLAYED),
        )
        return timed(self.model, found, self.setup)[:best]

    def answer(self, found: Sequence[Plan]) -> dict:
        """The plans, and the stages, neighbors and doubts of the first one."""
        winner, inside = found[0], self._inside_servers(found[0])
        around = neighbours(
            self.model,
            self.gpu,
            winner,
            fp8=self.fp8,
            search=self.search,
            clock=played_clock(self.model, self.setup) if winner.cut or winner.layout.pp == 1 else None,
        )
        fp8_experts = self.fp8 and self.model.experts > 0
        return {
            "model": self.model.name,
            "gpu": self.gpu.name,
            "gpus": self.gpus,
            "sequences": self.batch.sequences,
            "batch": _batch(self.batch),
            "error_of": "trained here" if self.gpu.measured else "published",
            "plans": [self._row(one, winner) for one in found],
            "neighbours": [_beside(winner, one) for one in around],
            "played_seconds": winner.step.total if winner.cut else None,
            "layers_of_stages": list(winner.cut or (self.model.layers,)),
            "doubt": " ".join(doubts(winner.layout, self.gpu, fp8_experts=fp8_experts)),
            "fastest_inside_servers": self._row(inside, winner) if inside else None,
        }

    def long_run(self, winner: Plan, tokens: int, price: float | None) -> dict:
        """Days, GPU-hours, goodput and price of training on `tokens` tokens, with the range of days given the step's
        error.
        """
        rest = (self.batch.tokens, tokens, price)
        cluster = (self.model, self.gpus, self.gpu.per_node)
        found = long_run(*cluster, winner.step.total, *rest)
        low, high = (long_run(*cluster, seconds, *rest).days for seconds in self._interval(winner.step.total))
        return asdict(found) | {"days_low": low, "days_high": high}

    def _interval(self, seconds: float) -> tuple[float, float]:
        return step_interval(seconds, here=self.gpu.measured is not None)

    def _inside_servers(self, winner: Plan) -> Plan | None:
        """The fastest plan with tensor parallelism inside a server; None if none fits.

        Returns the winner if it qualifies or if --tp was given.
        """
        if winner.layout.tp <= self.gpu.per_node or "tp" in self.search.fixed:
            return winner
        try:
            return self.plans(1, replace(self.search, max_tp=self.gpu.per_node))[0]
        except NothingFits:
            return None

    def _row(self, found: Plan, winner: Plan) -> dict:
        """A plan as a row. `waits` names the parts of a step other than compute that take at least 0.5%, largest first.

        tie: whether this plan is within the error of the first plan's step time.
        """
        parts, total = asdict(found.step), found.step.total
        tokens = found.layout.sequences_per_step * self.model.sequence
        flops = model_flops_per_token(self.model)
        waits = sorted(((seconds, name) for name, seconds in parts.items() if name != "compute"), reverse=True)
        low, high = self._interval(total)
        return {
            "layout": asdict(found.layout),
            "chunks": list(found.cut),
            "memory_gib": found.memory.total / GIB,
            "step_seconds": total,
            "step_seconds_low": low,
            "step_seconds_high": high,
            "tie": total <= self._interval(winner.step.total)[1],
            "mfu": utilisation(flops, tokens, total, found.layout.world, self.gpu.bf16_flops),
            "parts": parts,
            "waits": ", ".join(f"{name} {seconds / total:.0%}" for seconds, name in waits if seconds / total >= 0.005),
        }


def batch_of(tokens: int, sequence: int, num_gpus: int, *, exact: bool) -> TokenBatch:
    """The requested batch, or the nearest one that the GPUs can share evenly."""
    return exact_batch(tokens, sequence) if exact else shared_batch(tokens, sequence, num_gpus)


def chosen(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> tuple:
    """The given names, or all known ones. Raises ValueError for an unknown name."""
    if unknown := sorted({*(names or [])} - {*known}):
        raise ValueError(f"there is no {kind} {unknown[0]!r}: {instead(unknown[0], known)}")
    return tuple(names or known)


def _batch(batch: TokenBatch) -> dict:
    """The requested and the planned batch, in tokens; change = planned / asked - 1."""
    return {
        "asked_tokens": batch.asked_tokens,
        "asked_sequences": batch.asked_tokens / batch.sequence,
        "sequence": batch.sequence,
        "sequences": batch.sequences,
        "tokens": batch.tokens,
        "change": batch.change,
    }


def _beside(winner: Plan, one: Neighbour) -> dict:
    """A neighbor as plain data; numbers are None if the layout is impossible."""
    return {
        "change": one.change,
        "fits": one.fits,
        "slower": one.plan.step.total / winner.step.total - 1 if one.plan else None,
        "step_seconds": one.plan.step.total if one.plan else None,
        "memory_gib": one.plan.memory.total / GIB if one.plan else None,
        "reason": one.reason,
    }
