"""Pipeline parallelism: a schedule is a value that is built, checked, simulated, drawn, exported and executed."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    bounds=("least_makespan",),
    check_messages=("message_problems",),
    check=("problems",),
    communication=("Message", "MessageBatch", "communicate"),
    durations=("Durations",),
    emulated=("run_emulated",),
    execution=("Executor", "execute"),
    schedule=("Action", "Kind", "Overlap", "Schedule", "inputs_of", "parse_schedule"),
    shared_weights=("add_twin_gradients",),
    simulation=("Timeline", "peak_activations", "simulate"),
    stages=("ModuleStage",),
)
