"""The lab package of SYS-602: real ranks, meters for what they send and hold, and the formulas for both.

| week | packages |
|---|---|
| 0 start | `ranks` starts ranks and explains hangs; `meter` counts what they send and hold |
| 1 collectives | `collectives`, from send and receive |
| 2 DDP, 3 ZeRO, 4 FSDP | `data_parallel`; `meter.trace_of_step` records a step as it was |
| 5 tensor parallel, 6 sequence parallel | `tensor_parallel`; `model` recomputes, `meter` counts saved tensors |
| 7 pipelines, 8 zero bubble, 13 DualPipe | `pipeline_parallel` |
| 9 hybrid | `mesh` maps ranks to axes, `hybrid` combines the axes in one step |
| 10 planning | `costs`: the formulas that every week compares with measurements |
| 11 experts, 12 expert parallel | `model` routes, drops and computes; `expert_parallel` spreads experts over ranks |
| 14 long context | `context_parallel` |
| 15 capstone | `train`: recipes, the loop, checkpoints that any mesh can load; `own`: the learner's trainer, `mine` |
| every week | `model` is the model, `figures` draws, `study` manages pages, `home` is their start page |
| terminal | `commands` is the `shardlab` command |
"""

from shardlab.exports import lazily
from shardlab.own.finder import install

TYPE_CHECKING = False  # type checkers treat it as True; `import typing` takes longer than all of this

if TYPE_CHECKING:
    from shardlab import (
        collectives,
        context_parallel,
        costs,
        data_parallel,
        expert_parallel,
        figures,
        hybrid,
        mesh,
        meter,
        model,
        pipeline_parallel,
        study,
        tensor_parallel,
        train,
    )
    from shardlab.meter.alive import alive
    from shardlab.ranks.run import PerRank, RanksFailed, run
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
    install()
