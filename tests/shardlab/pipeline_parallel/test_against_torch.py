"""torch.distributed.pipelining as a second opinion: it runs our orders, and the gradients are the same bits."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import layer, loss, microbatches
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.execute import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.traces import to_csv
from test_execute import module_stages

BY_TORCH = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe-v"]
MICROBATCHES = 4


def plain_loss(output, target):
    return loss(output, int(target[0]))


def gradients_by_torch(schedule, file):
    """Gradients of this rank's stages, as torch's runtime computes them from our file."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    stages, cpu = num_stages(schedule), torch.device("cpu")
    modules = {stage: layer(stage) for stage in stages_of_rank(schedule, dist.get_rank())}
    pipeline = [PipelineStage(module, stage, stages, cpu) for stage, module in modules.items()]
    runtime = _PipelineScheduleRuntime(pipeline, MICROBATCHES, loss_fn=plain_loss)
    runtime._load_csv(file, "compute_only")
    batches = torch.cat(microbatches(MICROBATCHES))
    numbers = torch.arange(MICROBATCHES).repeat_interleave(len(batches) // MICROBATCHES)
    runtime.step(*([batches] if 0 in modules else []), target=numbers)
    return {stage: [p.grad for p in module.parameters()] for stage, module in modules.items()}


def gradients_by_us(schedule):
    stages = module_stages(schedule, dist.get_rank(), MICROBATCHES)
    execute(schedule, stages, group=None)
    return {stage: [p.grad for p in of_stage.parameters()] for stage, of_stage in stages.items()}


def both(schedules, files):
    return [(gradients_by_torch(s, file), gradients_by_us(s)) for s, file in zip(schedules, files, strict=True)]


@pytest.mark.slow  # the ranks import torch.distributed.pipelining, and with it the compiler
def test_torch_runs_our_orders_with_the_same_gradients(tmp_path):
    schedules = [BUILDERS[name](2, MICROBATCHES) for name in BY_TORCH]
    files = [str(tmp_path / f"{name}.csv") for name in BY_TORCH]
    for file, schedule in zip(files, schedules, strict=True):
        with open(file, "w") as out:
            out.write(to_csv(schedule))
    for by_name in shardlab.run(both, schedules, files, ranks=2, timeout=60):
        for name, (theirs, ours) in zip(BY_TORCH, by_name, strict=True):
            assert theirs.keys() == ours.keys()
            for stage, gradients in ours.items():
                for mine, other in zip(gradients, theirs[stage], strict=True):
                    assert torch.equal(mine, other), f"{name}, stage {stage}"
