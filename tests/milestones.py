"""`python -m tests.milestones` writes docs/milestones.md: claims of the notes behind the course, and what is true.

Each row is in our own words. The true numbers are computed by the `shardlab` functions that the week uses.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shardlab.costs import compression, traffic
from shardlab.costs.axis_traffic import activation_bytes_of, gradient_bytes, tp_layer_bytes, traffic_of_step
from shardlab.costs.clock.step import bubble_share
from shardlab.costs.layout import Layout
from shardlab.costs.links import group_of, ring_bandwidth
from shardlab.costs.machines import find_accelerator, links_of
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from shardlab.costs.memory.states import held_parameters, zero_state_bytes
from shardlab.costs.models.flops import attention_core_flops, layer_matmul_flops
from shardlab.costs.models.zoo import ZOO, gpt
from shardlab.costs.overlap import efficiency, exposed_seconds, ready_times, transfers
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes, ring_reduce_scatter_bytes, zero_bytes
from shardlab.hybrid.emulated import predicted_seconds
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

from tests.shardlab.costs.recipes import RECIPES, bytes_per_parameter

PAGE = Path(__file__).parents[1] / "docs" / "milestones.md"
GPT3, TP8_PP4_DP32 = ZOO["gpt3-175b"], Layout(tp=8, pp=4, dp=32)
SMALL, TP2 = gpt("twelve layers", 12, 512, 8, sequence=512), Layout(tp=2, microbatch=8)  # the model of one milestone


@dataclass(frozen=True)
class Row:
    """said: the claim in the notes. holds: a text with numbers in braces. where: exercises of weeks, or labs."""

    said: str
    holds: str
    numbers: Callable[[], dict[str, float]]
    where: tuple[str, ...]
    is_so: bool


def _nothing() -> dict[str, float]:
    return {}


def _saved(ranks: int, stage: int) -> float:
    return zero_state_bytes(1e9, ranks, 0).total / zero_state_bytes(1e9, ranks, stage).total


def _gigabytes(parameters: float, ranks: int) -> dict[str, float]:
    return {f"z{stage}": zero_state_bytes(parameters, ranks, stage).total / 1e9 for stage in range(4)}


def _fp32_elements() -> dict[str, float]:
    return {f"z{stage}": bytes_per_parameter("fp32", 8, stage) / 4 for stage in range(4)}


def _over_a_link() -> dict[str, float]:
    """Share of 10 ms of compute that the gradients of 24 and 64 million fp32 parameters cost without overlap."""
    links = {"pcie": 32e9, "nvlink": find_accelerator("a100").nvlink}
    sizes = {"small": 24, "large": 64}
    return {
        f"{link}_{name}": ring_all_reduce_bytes(2, 4e6 * millions) / speed / 0.010
        for link, speed in links.items()
        for name, millions in sizes.items()
    }


def _tp_milestone() -> dict[str, float]:
    payload = activation_bytes_of(SMALL, TP2)
    step = traffic_of_step(SMALL, TP2)
    forward = step.tp_forward / ring_all_reduce_bytes(2, payload)
    seconds = forward * payload / 32e9
    sizes = {"mib": payload / 2**20, "forward": forward, "all": 2 * forward, "megabytes": forward * payload / 1e6}
    sizes["mebibytes"] = forward * payload / 2**20
    return sizes | {"ms": 1e3 * seconds, "share": seconds / 0.050}


def _width() -> dict[str, float]:
    narrow, wide, layout = gpt("narrow", 12, 1024, 16), gpt("wide", 12, 2048, 16), Layout(tp=4)
    sent = tp_layer_bytes(wide, layout) / tp_layer_bytes(narrow, layout)
    return {"sent": sent, "flops": layer_matmul_flops(wide) / layer_matmul_flops(narrow)}


def _half_the_model() -> dict[str, float]:
    def of(layout: Layout) -> float:
        return held_parameters(SMALL, layout).total

    return {"share": of(Layout(tp=2)) / of(Layout())}


def _175b() -> dict[str, float]:
    payload, step = activation_bytes_of(GPT3, TP8_PP4_DP32), traffic_of_step(GPT3, TP8_PP4_DP32)
    gradients = gradient_bytes(GPT3, TP8_PP4_DP32, stage=1)
    sent = {"payload": payload / 1e6, "sent": ring_all_reduce_bytes(8, payload) / 1e6, "forward": step.tp_forward / 1e9}
    return sent | {"boundary": step.pp_forward / 1e6, "gradients": gradients / 1e9}


def _eight_or_sixteen() -> dict[str, float]:
    """Milliseconds and GPU milliseconds of GPT-3's layer, at half of peak, over the links of `costs.links`."""
    h100 = find_accelerator("h100")
    links = links_of(h100)
    work = 3 * (layer_matmul_flops(GPT3) + attention_core_flops(GPT3)) * GPT3.sequence / (h100.bf16_flops / 2)
    sent = {tp: 4 * ring_all_reduce_bytes(tp, activation_bytes_of(GPT3, Layout())) for tp in (8, 16)}
    eight, sixteen = (
        1e3 * (work / tp + num_bytes / ring_bandwidth(links, group_of(links, tp))) for tp, num_bytes in sent.items()
    )
    return {"eight": eight, "sixteen": sixteen, "cheap": 8 * eight, "dear": 16 * sixteen}


def _p2p() -> dict[str, float]:
    base = replace(TP8_PP4_DP32, num_microbatches=8)
    one_way, step = activation_bytes_of(GPT3, base) * 8, traffic_of_step(GPT3, base)
    virtual, split = (
        traffic_of_step(GPT3, replace(base, **change)) for change in ({"virtual": 2}, {"sequence_parallel": True})
    )
    both = (step.pp_forward + step.pp_backward) / one_way
    return {"both": both, "virtual": virtual.pp_forward / one_way, "split": one_way / split.pp_forward}


def _ten_and_eight() -> dict[str, float]:
    """Without overlap; with eight buckets overlapping a backward of two thirds of the compute; at best."""
    window, buckets = 20 / 3, 8
    ready = ready_times(10 - window, [window / buckets] * buckets)
    with_buckets = exposed_seconds(10, transfers(ready, [8 / buckets] * buckets))
    return {"none": efficiency(10, 8), "eight": efficiency(10, with_buckets), "best": efficiency(10, 8 - window)}


def _four_gpus() -> dict[str, float]:
    step = {"num_microbatches": 8, "forward_seconds": 0.010, "gradient_bytes": 400e6, "bytes_per_second": 32e9}
    meshes = {"dp4": Mesh(dp=4), "dp2pp2": Mesh(dp=2, pp=2), "pp4": Mesh(pp=4)}
    return {name: 8 * 0.030 / 4 / predicted_seconds(mesh, **step) for name, mesh in meshes.items()}


def _schedules() -> dict[str, float]:
    found = {"idle": bubble_share(4, 8), "dualpipe": simulate(dualpipe(8, 20)).idle[0]}
    found["of"] = simulate(dualpipe(8, 20)).makespan
    found |= {
        name: max(peak_activations(BUILDERS[kind](4, 8))) for name, kind in (("gpipe", "gpipe"), ("f1b1", "1f1b"))
    }
    return found


def _activations() -> dict[str, float]:
    s, h, a = 2048, 12288, 96
    whole = gpt_layer_activation_bytes(s, 1, h, a)
    both = gpt_layer_activation_bytes(s, 1, h, a, 8, sequence_parallel=True, recompute="selective")
    tp = gpt_layer_activation_bytes(s, 1, h, a, 8, recompute="selective")
    return {"whole": whole / (s * h), "both": both / (s * h), "tp": tp / (s * h)}


ROWS = (
    # ---- communication, weeks 1 and 2 ----
    Row(
        "a data-parallel all-reduce sends 2 · size · (N−1)/N",
        "{of8:.2f} times the size on 8 ranks; *twice* is the limit for many ranks",
        lambda: {"of8": ring_all_reduce_bytes(8, 1)},
        ("week01.naive-bill", "week01.all-reduce-seconds"),
        True,
    ),
    Row(
        "reduce = reduce-scatter + all-gather",
        "**all-reduce** is: {both:.2f} = {all:.2f} times the size on 8 ranks",
        lambda: {
            "both": ring_reduce_scatter_bytes(8, 1) + ring_all_gather_bytes(8, 1),
            "all": ring_all_reduce_bytes(8, 1),
        },
        ("week01.ring-reduce-scatter", "week01.ring-all-reduce"),
        False,
    ),
    Row(
        "milestone: DDP over PCIe costs 20–40% of a step, over NVLink 5–10%",
        "it depends on bytes, bandwidth and compute: for 24 and 64 million fp32 parameters, 10 ms of compute grow by "
        "{pcie_small:.0%} and {pcie_large:.0%} over PCIe, {nvlink_small:.0%} and {nvlink_large:.0%} over NVLink, "
        "without overlap",
        _over_a_link,
        ("week02.efficiency", "week02.ddp-backward"),
        False,
    ),
    Row(
        "milestone: 10 ms of compute and 8 ms of communication are 55% efficient",
        "{none:.0%} without overlap; {eight:.0%} with eight buckets; {best:.0%} at best",
        _ten_and_eight,
        ("week02.ten-and-eight",),
        False,
    ),
    Row(
        "send only the largest gradients, or one bit of each, and keep the rest for later",
        "1% of a million fp32 numbers, with their positions: {top_k:.0f} times fewer bytes; one bit of each: "
        "{one_bit:.0f} times",
        lambda: {
            "top_k": 4e6 / compression.top_k_bytes(compression.kept_elements(10**6, 0.01)),
            "one_bit": 4e6 / compression.one_bit_bytes(10**6),
        },
        ("week02.top-k",),
        True,
    ),
    # ---- states, weeks 3 and 4 ----
    Row(
        "mixed precision: weights 2P, gradients 2P, Adam 12P, together 16P bytes; 70B parameters need 1.12 TB",
        "{total} bytes; {terabytes:.2f} TB; {fp32_gradients} bytes if gradients are accumulated in fp32",
        lambda: {
            "total": RECIPES["mixed"].total,
            "terabytes": zero_state_bytes(70e9, 1, 0).total / 1e12,
            "fp32_gradients": RECIPES["bf16-fp32-gradients"].total,
        },
        ("week03.state-bytes",),
        True,
    ),
    Row(
        "mixed precision halves memory and communication",
        "communication: {gradients:.0f} times less; but model *states* take {mixed} bytes per parameter, and {fp32} in "
        "fp32; activations are halved",
        lambda: {
            "gradients": RECIPES["fp32"].gradients / RECIPES["mixed"].gradients,
            "mixed": RECIPES["mixed"].total,
            "fp32": RECIPES["fp32"].total,
        },
        ("week03.state-bytes",),
        False,
    ),
    Row(
        "model states are 4Φ; with ZeRO-1, 2 and 3 they are 2Φ+2Φ/N, 2Φ/N+2Φ/N and 4Φ/N",
        "4Φ counts fp32 numbers; at N = 8: {z0:.3g}Φ, {z1:.3g}Φ, {z2:.4g}Φ, {z3:.3g}Φ. ZeRO-2 keeps all weights: "
        "Φ + 3Φ/N",
        _fp32_elements,
        ("week03.state-bytes",),
        False,
    ),
    Row(
        "ZeRO-1, 2 and 3: 4P+12P/N, 2P+14P/N and 16P/N bytes",
        "at N = 8: {z1:.3g}P, {z2:.3g}P, {z3:.3g}P",
        lambda: _gigabytes(1e9, 8),
        ("week03.state-bytes", "week04.n-times"),
        True,
    ),
    Row(
        "ZeRO saves 4, 8 and 3N times",
        "{z1:.1f}, {z2:.1f} and {z3:.0f} times at N = 8: 4 and 8 are the limits, and stage 3 saves N times",
        lambda: {f"z{stage}": _saved(8, stage) for stage in (1, 2, 3)},
        ("week03.state-bytes", "week04.n-times"),
        False,
    ),
    Row(
        "Adam's state is 12 times the model; data parallelism stores five copies of it",
        "{optimizer} *bytes per parameter*, {times:.0f} times the bf16 weights; all five numbers together take "
        "{all:.0f} times",
        lambda: {
            "optimizer": RECIPES["mixed"].optimizer,
            "times": RECIPES["mixed"].optimizer / RECIPES["mixed"].weights,
            "all": RECIPES["mixed"].total / RECIPES["mixed"].weights,
        },
        ("week03.state-bytes",),
        False,
    ),
    Row(
        "milestone: 100M parameters on two GPUs: 1.6 GB with DDP, 0.9 with ZeRO-2, 0.8 with FSDP",
        "{z0:.1f}, {z1:.1f} (ZeRO-1), {z2:.1f} and {z3:.1f} GB",
        lambda: _gigabytes(100e6, 2),
        ("week03.two-gpus",),
        True,
    ),
    Row(
        "milestone: 10B parameters need 160 GB per GPU with DDP, 20 GB with FSDP on 8",
        "{z0:.0f} GB and {z3:.0f} GB, for states alone",
        lambda: _gigabytes(10e9, 8),
        ("week03.state-bytes", "week04.n-times"),
        True,
    ),
    Row(
        "ZeRO sends 2, 2, 2 and 3 times the parameters",
        "times (N−1)/N: {z0:.3g}, {z1:.3g}, {z2:.3g} and {z3:.4g} at N = 8",
        lambda: {f"z{stage}": zero_bytes(8, 1, stage) for stage in range(4)},
        ("week03.zero1", "week03.zero2", "week04.step"),
        True,
    ),
    Row(
        "milestone: FSDP costs 5–15% of DDP's throughput",
        "it sends {times:.1f} times as much; the exposed part depends on the link",
        lambda: {"times": zero_bytes(8, 1, 3) / zero_bytes(8, 1, 0)},
        ("week04.plan", "week04.ethernet"),
        False,
    ),
    # ---- tensor and sequence parallelism, weeks 5 and 6 ----
    Row(
        "a tensor-parallel all-reduce sends 2 · activation · (N−1)/N",
        "{one:.2f} times the activation on 8 ranks, four times per layer in forward and backward",
        lambda: {"one": ring_all_reduce_bytes(8, 1)},
        ("week05.bill",),
        True,
    ),
    Row(
        "milestone: tensor parallelism over 2 halves a model of 12 layers, hidden 512",
        "{share:.0%} of the parameters: norms, and biases that are not split, are replicated",
        _half_the_model,
        ("week05.bill",),
        True,
    ),
    Row(
        "milestone: batch 8, 512 tokens, hidden 512: 24 communications of 4 MB forward, 96 MB, 3 ms over PCIe, 6% of "
        "50 ms",
        "{forward:.0f} of {mib:.0f} MiB, {mebibytes:.0f} MiB or {megabytes:.0f} MB, {ms:.1f} ms, {share:.0%}; "
        "{all:.0f} with the backward, plus those of embedding and loss",
        _tp_milestone,
        ("week05.bill",),
        True,
    ),
    Row(
        "tensor-parallel communication grows with the square of the width, compute with its cube",
        "twice the width: {sent:.0f} times the bytes and {flops:.0f} times the FLOPs, at equal tokens",
        _width,
        ("week05.why-eight",),
        False,
    ),
    Row(
        "sequence parallelism divides activations by the number of ranks; source: arXiv 2104.04473",
        "by 8, yes, with selective recomputation: {tp:.3g} become {both:.3g} bytes per number (of {whole:.0f}); the "
        "right paper is 2205.05198",
        _activations,
        ("week06.activations", "week06.block"),
        False,
    ),
    # ---- pipelines, weeks 7, 8 and 13 ----
    Row(
        "milestone: two stages are busy 50, 80 and 89% with 1, 4 and 8 microbatches",
        "{m1:.0%}, {m4:.0%} and {m8:.0%}",
        lambda: {f"m{num}": 1 - bubble_share(2, num) for num in (1, 4, 8)},
        ("week07.bubble",),
        True,
    ),
    Row(
        "milestone: at 4 microbatches this loses 20% against a single GPU",
        "{busy:.0%} of *two* GPUs: {times:.1f} times a single one",
        lambda: {"busy": 1 - bubble_share(2, 4), "times": 2 * (1 - bubble_share(2, 4))},
        ("week07.bubble",),
        False,
    ),
    Row(
        "1F1B is as efficient as GPipe with much less memory",
        "4 stages, 8 microbatches: both idle {idle:.1%}; at most {gpipe} and {f1b1} microbatches are in memory",
        _schedules,
        ("week07.gpipe", "week07.one-f-one-b"),
        True,
    ),
    Row(
        "a pipeline sends activation × microbatches",
        "per boundary and direction: {both:.0f} times with the backward, {virtual:.0f} times with two chunks per "
        "rank, 1/{split:.0f} of it with sequence parallelism over {split:.0f}",
        _p2p,
        ("week07.neighbours", "week08.interleaved", "week09.axis-bytes"),
        False,
    ),
    Row(
        "interview: how does DualPipe hide communication?",
        "on 8 ranks with 20 microbatches a rank is idle for {dualpipe:.0f} of {of:.0f}; week 13 measures what overlaps "
        "what",
        _schedules,
        ("week13.bill", "week13.dualpipe", "week13.pair-seconds"),
        True,
    ),
    # ---- all together, weeks 9 and 10 ----
    Row(
        "64 GPUs: TP 8 × PP 4 × DP 2",
        "{world} ranks; what matters is which ranks share a server",
        lambda: {"world": Layout(tp=8, pp=4, dp=2).world},
        ("week09.coordinates", "week09.rank-37"),
        True,
    ),
    Row(
        "interview: what does a step send with TP 8, PP 4, DP 32?",
        "175B, one sequence of 2,048: {payload:.1f} MB of payload per all-reduce, for which a rank sends {sent:.1f} "
        "MB; {forward:.2f} GB each way per microbatch on tp; {boundary:.1f} MB each way per boundary; {gradients:.1f} "
        "GB of gradients per step",
        _175b,
        ("week09.axis-bytes",),
        True,
    ),
    Row(
        "milestone: four GPUs over PCIe are 70–85% efficient",
        "{dp4:.0%} as dp 4, {dp2pp2:.0%} as dp 2 × pp 2, {pp4:.0%} as pp 4, with 400 MB of gradients and 8 "
        "microbatches",
        _four_gpus,
        ("week09.hybrid-step",),
        True,
    ),
    Row(
        "rules of thumb: TP up to 8, PP across machines, DP last",
        "these are claims: the planner tries the best plan with and without each (`check_rules(…)`); a small model "
        "needs no pipeline; 16 H100 compute GPT-3's layer in {sixteen:.1f} ms and 8 in {eight:.1f}, but use {dear:.0f} "
        "GPU ms instead of {cheap:.0f}",
        _eight_or_sixteen,
        ("week05.why-eight", "week10.ranked"),
        False,
    ),
    Row(
        "interview: one trillion parameters on 1,024 H100",
        "a plan, its memory, its utilization and what to check first, from your own planner",
        _nothing,
        ("week10.fits", "week10.trillion"),
        True,
    ),
    Row(
        "Dolma's 7B, Yi, Gemma 2, Llama 3 and DeepSeek: which parallelism, and why",
        "section 10 of week 10 compares each with what the planner would have tried first; older notes say that "
        "DeepSeek-V3 uses tensor parallelism, which it does not",
        _nothing,
        ("week10.ranked",),
        False,
    ),
    # ---- experts and long context, weeks 11, 12 and 14 ----
    Row(
        "expert parallelism sends tokens with all-to-alls",
        "8 ranks, top-2, 16,384 tokens, hidden 4,096 in bf16: {rank:.1f} MB per rank and all-to-all, {all:.0f} MB in "
        "total",
        lambda: {
            "rank": traffic.all_to_all_bytes(8, 2048 * 2 * 4096 * 2) / 1e6,
            "all": 8 * traffic.all_to_all_bytes(8, 2048 * 2 * 4096 * 2) / 1e6,
        },
        ("week11.bill", "week12.bill"),
        True,
    ),
    Row(
        "context parallelism and ring attention split the sequence",
        "their bytes compared with Ulysses and gathered keys, and the work of each rank",
        _nothing,
        ("week14.bill", "week14.ring", "week14.ulysses"),
        True,
    ),
    # ---- the capstone, weeks 15 and 16 ----
    Row(
        "capstone: train a model over all axes, kill a rank, and resume",
        "a recipe is data; checkpoints are split by the whole model's rows and columns, so any mesh can load them",
        _nothing,
        ("week15.finish", "week15.reshard", "week15.newest", "week15.recipe"),
        True,
    ),
    Row(
        "capstone: design a training and defend it",
        "the cheapest layout that fits and meets the deadline, every number of its document, and a review of changes",
        _nothing,
        ("week16.bill", "week16.published", "week16.review", "week16.design"),
        True,
    ),
    # ---- what to be able to do ----
    Row(
        "labs: each parallelism simulated, with a memory calculator; Megatron's own layers and pipelines; the stages "
        "of ZeRO",
        "commands that print the prediction next to the measurement",
        _nothing,
        ("labs/lab01-parallelism-sim/", "labs/lab02-megatron/", "labs/lab03-zero/"),
        True,
    ),
    Row(
        "goals: derive memory and traffic of every strategy; read Megatron's tensor and pipeline code; ZeRO's slices; "
        "1F1B; DualPipe",
        "an exercise for each, and questions about source code every week",
        _nothing,
        ("week03.state-bytes", "week05.reading", "week07.reading", "week09.axis-bytes", "week13.eight-steps"),
        True,
    ),
)

HEAD = """# Numbers from lecture notes, and what is true

<!-- written by `python -m tests.milestones`; tests/labs/test_one_screen.py recomputes it -->

The course grew out of lecture notes, study plans and interview lists. Every number and milestone in them appears in a
week; some are wrong, and the week shows why. The column *what is true* is computed by the functions of the weeks.
**✓** true as stated · **✗** not true, or only under a condition that the notes do not mention.
"""


def line(row: Row) -> str:
    """Return a row of the table, with its numbers computed."""
    where = ", ".join(f"`{one}`" for one in row.where)
    return f"| {'✓' if row.is_so else '✗'} | {row.said} | {row.holds.format(**row.numbers())} | {where} |"


def whole() -> str:
    """The page."""
    table = ["| | notes say | what is true | where |", "|---|---|---|---|", *map(line, ROWS)]
    return "\n\n".join([HEAD.rstrip(), "\n".join(table)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(whole(), encoding="utf-8")
