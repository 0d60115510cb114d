"""torch.distributed.pipelining as a reference: it prints the same orders, and runs ours with bitwise equal results."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import layer, loss, microbatches
from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import Kind, num_stages, parse_slot, stages_of_rank
from shardlab.pipeline_parallel.simulation import peak_activations, simulate
from shardlab.pipeline_parallel.traces import to_csv
from test_execution import module_stages

BY_TORCH = ["1f1b", "interleaved", "zb-h2", "zbv", "v-half", "dualpipe-v"]
MICROBATCHES = 4


def plain_loss(output, target):
    return loss(output, int(target[0]))


def gradients_by_torch(schedule, file):
    """Gradients of this rank's stages, computed by torch's runtime from our file."""
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


@pytest.mark.slow  # the ranks import torch.distributed.pipelining, which imports the compiler
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


def torchs_order(name, ranks, num_microbatches, virtual):
    """The slots that a torch schedule prints for dummy stages, or None if torch refuses the sizes."""
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase

    class Paper(_PipelineStageBase):
        def __init__(self, stage):
            self.stage_index, self.num_stages = stage, ranks * virtual
            self.group, self.group_size, self.group_rank = None, ranks, 0
            self.has_backward, self.submod = False, torch.nn.Identity()

    folded = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    numbers = [0, 2 * ranks - 1] if folded else range(0, ranks * virtual, ranks)
    Paper.__abstractmethods__ = frozenset()
    try:
        printed = getattr(schedules, name)([*map(Paper, numbers)], num_microbatches, loss_fn=plain_loss)
    except ValueError:
        return None
    return [[str(action) for action in printed.pipeline_order[rank] if action is not None] for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_orders_equal_torchs_for_other_sizes(ranks):
    for num_microbatches in range(1, 2 * ranks + 6):
        for name, builder, virtual in (
            ("ScheduleInterleaved1F1B", lambda p, m: builders.interleaved(p, m, 3), 3),
            ("ScheduleInterleavedZeroBubble", builders.zb_h1, 1),
            ("ScheduleDualPipeV", builders.dualpipe_v, 2),
        ):
            theirs = torchs_order(name, ranks, num_microbatches, virtual)
            if theirs is not None:  # torch refuses more sizes of ZB-H1 than necessary
                ours = builder(ranks, num_microbatches)
                assert [[str(slot) for slot in slots] for slots in ours] == theirs, f"{name}, {num_microbatches}"


@pytest.mark.parametrize("ranks", [1, 3, 5, 8])
def test_zbv_is_never_slower_than_torchs_nor_larger(ranks):
    for num_microbatches in range(1, 2 * ranks + 4):
        theirs = torchs_order("ScheduleZBVZeroBubble", ranks, num_microbatches, 2)
        theirs = [[parse_slot(text) for text in texts] for texts in theirs]
        ours = builders.zbv(ranks, num_microbatches)
        assert simulate(ours).makespan <= simulate(theirs).makespan
        for until in (Kind.I, Kind.W):
            assert max(peak_activations(ours, until=until)) <= max(peak_activations(theirs, until=until))
