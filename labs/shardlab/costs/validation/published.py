"""Published training runs from a CSV file: what was run and what was reported. For the columns see data/README.md."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from shardlab.costs.clock.setup import FITTED, Efficiency, Setup, Software
from shardlab.costs.hardware import ACCELERATORS, Accelerator
from shardlab.costs.layout import Layout, check_layout, check_world, with_global_batch
from shardlab.costs.models.model import Latent, Transformer
from shardlab.costs.validation.memory_rows import Reported, reported_by
from shardlab.meant import instead

RUNS = Path(__file__).parents[1] / "data" / "published_runs.csv"
GPUS = {
    "A100-80GB-SXM": "a100",
    "A100-SXM (8/node, 800 Gbps IB/node)": "a100",
    "A100-40GB-SXM": "a100-40",
    "H100-SXM": "h100",
    "H100-96GB-HBM2e-500W": "h100-96",
    "H200-SXM": "h200",
    "B200-SXM": "b200",
    "GB200": "gb200",
    "B300-SXM": "b300",
    "GB300": "gb300",
}
# Network Gb/s per GPU if the source states an unusual one: four 100 Gb/s cards, and 800, per server
NETWORK_GBIT = {"BLOOM": 50, "VTRAIN": 100}
# facts that no column contains, by prefix of the model's name: heads wider than h/a, and layers without experts
HEAD_DIM = {"qwen3": 128, "gpt oss": 64}
DENSE_LAYERS = {"deepseekv3": (3, 18432), "deepseekv2": (1, 12288)}
# programs whose documentation names PyTorch's own attention or FlashAttention-2, on any GPU
FLASH2 = ("torchtitan", "llm-foundry", "nanotron", "picotron", "fsdp", "deterministic")
UNFUSED_LOSS = ("llm-foundry", "nanotron", "eager")
# programs that sum gradients in a separate kernel, as all did before the layer that came with sequence parallelism
APART, FUSES_GRADIENTS = ("nanotron", "no grad-accum fusion"), ("2205.05198",)
# tensor-parallel collectives in pieces that overlap with matmuls: stated by the row, or the program's default
TENSOR_OVERLAP = ("tp-comm-overlap on", "asynctp", "nemo")
# all-reduce whole gradients in fp32 although optimizer states are sharded
WHOLE_GRADIENTS = ("nanotron", "bigscience")
# "320 GPUs, async: always hangs", so CUDA_LAUNCH_BLOCKING=1 (bigscience, chronicles-prequel.md; the .slurm file)
LAUNCHES_BLOCK = ("bigscience",)
Value = TypeVar("Value")
EXPERTS = re.compile(r"(\d+) expert \((\d+) top(\d+)(?:\+(\d+)s)?\)")


@dataclass(frozen=True)
class Run:
    """One published run. Reported numbers are None if the source does not give them."""

    id: str
    family: str
    model: Transformer
    layout: Layout
    gpu: Accelerator
    fp8: bool
    gradient_bytes: int
    software: Software
    step_seconds: float | None
    memory_bytes: float | None
    reported: Reported
    flagged: bool

    def setup(self, efficiency: Efficiency = FITTED) -> Setup:
        """The run's setup, without reported results."""
        return Setup(self.gpu, efficiency, self.fp8, self.gradient_bytes, self.software)


def read_rows(path: Path = RUNS) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_runs(path: Path = RUNS) -> Iterator[Run]:
    """The rows that can be parsed; the others are skipped (`run_of` gives the reason)."""
    for row in read_rows(path):
        try:
            yield run_of(row)
        except (ValueError, KeyError):
            continue


def run_of(row: dict[str, str]) -> Run:
    """A row as a run. Raises ValueError with the reason for an invalid row, KeyError for a missing column."""
    family = row["id"].split("-")[0]
    family = "MEG21" if family == "MEG" else family
    gpu = gpu_of(row["gpu"])
    if family in NETWORK_GBIT:
        gpu = replace(gpu, network=NETWORK_GBIT[family] * 1e9 / 8)
    model, layout = model_of(row), layout_of(row)
    check_layout(model, layout)
    check_world(layout, _whole(row, "n_gpus"))
    seconds = row.get("reported_step_s") or row.get("step_s_derived")
    memory = row.get("reported_mem_GB")
    precision = row["precision"].lower()
    return Run(
        id=row["id"],
        family=family,
        model=model,
        layout=layout,
        gpu=gpu,
        fp8="fp8" in precision or "fp4" in precision,
        software=software_of(row, layout),
        gradient_bytes=2 if "fp16" in precision or layout.zero == 3 else 4,
        step_seconds=float(seconds) if seconds else None,
        memory_bytes=float(memory) * reported_by(row).unit if memory else None,
        reported=reported_by(row),
        flagged=any(word in (row.get("flag") or "") for word in ("outlier", "printed")),
    )


def gpu_of(name: str) -> Accelerator:
    """The accelerator with this name in a source: by the full name, or by the first known word in it.

    Raises ValueError that lists the names.
    """
    words = [GPUS.get(name, ""), *re.split(r"[^a-z0-9]+", name.lower())]
    known = next((word for word in words if word in ACCELERATORS), None)
    if known is None:
        raise ValueError(f"unknown GPU {name!r}: {instead(name, GPUS)}")
    return ACCELERATORS[known]


def model_of(row: dict[str, str]) -> Transformer:
    """The model of a row: gated without biases, except GPT and MPT. Only GPT on A100 has unfused attention."""
    arch, ffn = row["arch"], row["ffn"]
    is_gpt, is_mpt = arch.startswith("gpt"), arch.startswith("mpt")
    sizes = {name: _whole(row, name) for name in ("layers", "hidden", "heads", "kv_heads", "vocab")}
    experts: dict = {}
    if match := EXPERTS.fullmatch(ffn):
        width, number, active, shared = (int(group or 0) for group in match.groups())
        experts = dict(experts=number, active_experts=active, expert_ffn=width, shared_experts=shared)
    dense, dense_ffn = _of_model(row, DENSE_LAYERS, (0, 0)) if experts else (0, 0)
    if _names(row, ("truncated",)):
        dense = min(dense, 1)  # according to SimuMax's page on its DeepSeek-V3 with 4 layers
    return Transformer(
        row["model"],
        **sizes,
        sequence=_whole(row, "seq"),
        ffn=dense_ffn if experts else _whole(row, "ffn"),
        dense_layers=dense,
        head_dim=_of_model(row, HEAD_DIM, 0),
        gated=not (is_gpt or is_mpt),
        bias=is_gpt,
        tied=is_mpt or (is_gpt and "untied" not in arch),
        positions=_whole(row, "seq") if is_gpt or is_mpt else 0,
        norm_vectors=4 if is_gpt else 2,
        latent=Latent() if arch.startswith("mla") else None,
        flash=not (is_gpt and "flash" not in arch and row["gpu"].startswith("A100")),
        **experts,
    )


def layout_of(row: dict[str, str]) -> Layout:
    """The layout of a row. Unless stated: one sequence per microbatch, no recomputation, chunks of two layers.

    Communication overlaps with the backward except in Megatron of 2021 and 2022, where whole gradients of sharded
    states are reduced after it, and where the row says otherwise.
    """
    tp, pp, virtual = (_whole(row, name) for name in ("tp", "pp", "virtual_pp"))
    if virtual == 1 and row["schedule"].startswith("interleaved"):
        virtual = _chunks(_whole(row, "layers"), pp)
    old = _is_old(row)
    zero = int(row["zero_stage"] or 0)
    layout = Layout(
        tp=tp,
        pp=pp,
        dp=_whole(row, "dp"),
        cp=_whole(row, "cp"),
        ep=_whole(row, "ep"),
        virtual=virtual,
        microbatch=_whole(row, "micro_batch", unstated=_microbatch(row)),
        num_microbatches=pp,
        sequence_parallel=row["sp"] == "True" and tp > 1,
        zero=zero,
        recompute={"full": "full", "none": "none", "": "none"}.get(row["recompute"], "selective"),  # type: ignore[arg-type]
        overlap=not (old and zero < 3) and not _reduces_whole(row) and "overlap disabled" not in row["note"],
        tensor_overlap=_names(row, TENSOR_OVERLAP),
    )
    return with_global_batch(layout, _whole(row, "global_batch"))


def software_of(row: dict[str, str], layout: Layout) -> Software:
    """The program according to the row's source; current Megatron's settings if it does not say."""
    return Software(
        newest_attention=not _names(row, FLASH2),
        fused=not _names(row, ("eager",)),
        fused_loss=not (_is_old(row) or _names(row, UNFUSED_LOSS)),
        half_products=_names(row, ("torchtitan",)),
        drops_tokens="tokendrop" in row["model"].lower(),
        expert_overlap=layout.virtual > 1 and layout.ep > 1 and _names(row, ("nemo",)),
        balanced_stages=_names(row, ("nanotron",)),
        gradients_apart=_names(row, APART) or (_is_old(row) and not _names(row, FUSES_GRADIENTS)),
        reduces_whole=_reduces_whole(row),
        launches_block=_names(row, LAUNCHES_BLOCK) and _whole(row, "n_gpus") >= 320,
        one_card=_is_old(row) and layout.zero == 3,
    )


def _of_model(row: dict[str, str], known: dict[str, Value], otherwise: Value) -> Value:
    """The known value for models whose name starts with one of these prefixes."""
    name = row["model"].lower().replace("_", " ")
    return next((value for start, value in known.items() if name.startswith(start)), otherwise)


def _is_old(row: dict[str, str]) -> bool:
    """Megatron and DeepSpeed of 2021 and 2022: GPT with unfused attention on A100."""
    return row["arch"] == "gpt" and row["gpu"].startswith("A100")


def _reduces_whole(row: dict[str, str]) -> bool:
    """nanotron with ZeRO-1 and fp32 gradients, which then does not use DDP; DeepSpeed's BF16 optimizer (BLOOM)."""
    in_fp32 = row["zero_stage"] == "1" and "fp32 grad" in row["precision"]
    return in_fp32 and _names(row, WHOLE_GRADIENTS)


def _names(row: dict[str, str], words: Iterable[str]) -> bool:
    text = f"{row['source']} {row['schedule']} {row['note']}".lower()
    return any(word in text for word in words)


def _microbatch(row: dict[str, str]) -> int:
    """A rank's whole batch without a pipeline; in torchtitan one microbatch per stage; otherwise one sequence each."""
    pp = _whole(row, "pp")
    pieces = pp if pp == 1 or "torchtitan" in row["source"] else 0
    return max(1, _whole(row, "global_batch") // (_whole(row, "dp") * pieces)) if pieces else 1


def _chunks(layers: int, pp: int) -> int:
    """Chunks of two layers, or of one if the first and last stage have one layer less, as in Llama 3 405B.

    Its first chunk holds only the embedding, its last only the output layer (arXiv 2407.21783, section 3.3.2).
    """
    return max(1, layers // pp if (layers + 2) % pp == 0 else layers // (2 * pp))


def _whole(row: dict[str, str], name: str, unstated: int | None = None) -> int:
    if row[name] == "" and unstated is not None:
        return unstated
    try:
        return int(float(row[name]))
    except (ValueError, OverflowError):
        raise ValueError(f"{name} = {row[name]!r} is not a number: give a whole number") from None
