"""Add predictions to a table of runs, or the reason why there is none."""

from collections.abc import Iterable

from shardlab.costs.clock.step import step_seconds
from shardlab.costs.uncertainty import step_interval
from shardlab.costs.validation.memory_rows import reported_bytes
from shardlab.costs.validation.published import Run, run_of

ADDED = ("predicted_step_s", "predicted_step_low_s", "predicted_step_high_s", "predicted_mem_GB", "not_predicted")
NO_ANSWER = ("",) * (len(ADDED) - 1)  # placed before the reason
REPORTED = ("reported_tflops_per_gpu", "reported_step_s", "reported_mfu", "reported_hfu", "reported_mem_GB")
DERIVED = ("tok_s_gpu", "step_s_derived", "flag")


def predict_seconds(run: Run) -> float:
    return step_seconds(run.model, run.layout, run.setup()).total


def predict_memory(run: Run) -> float:
    """Bytes that the source would have reported."""
    return reported_bytes(run.model, run.layout, run.reported, run.gradient_bytes)


def predicted_rows(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """The same rows with ADDED columns. Reported results are removed before anything is predicted.

    The step time comes with the bounds of its 90% interval.
    """
    done = []
    for row in rows:
        blind = {name: "" if name in REPORTED + DERIVED else value or "" for name, value in row.items() if name}
        try:
            run = run_of(blind)
            seconds = predict_seconds(run)
            times = [f"{one:.4f}" for one in (seconds, *step_interval(seconds))]
            answers = (*times, f"{predict_memory(run) / run.reported.unit:.2f}", "")
        except KeyError as error:
            answers = (*NO_ANSWER, f"missing column {error.args[0]}")
        except (ValueError, ArithmeticError) as error:
            answers = (*NO_ANSWER, str(error))
        done.append(row | dict(zip(ADDED, answers, strict=True)))
    return done
