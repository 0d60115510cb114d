"""Pipeline parallelism: a schedule is a value that is built, checked, simulated, drawn, exported and executed."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.pipeline_parallel import builders
    from shardlab.pipeline_parallel.asleep import run_asleep
    from shardlab.pipeline_parallel.check_messages import message_problems
    from shardlab.pipeline_parallel.communication import MessageBatch, communicate
    from shardlab.pipeline_parallel.durations import Durations
    from shardlab.pipeline_parallel.execution import execute, run_program
    from shardlab.pipeline_parallel.schedule import Action, Kind, Schedule, inputs_of, parse_schedule
    from shardlab.pipeline_parallel.shared_weights import add_twin_gradients
    from shardlab.pipeline_parallel.simulation import peak_activations, simulate
    from shardlab.pipeline_parallel.stages import ModuleStage
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
