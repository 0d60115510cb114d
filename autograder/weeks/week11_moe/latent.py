"""Latent attention's bytes per token and layer in bf16: two caches, and what a backward needs, whole or repeated."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.activations import cache_bytes, latent_attention_bytes
from shardlab.costs.models.model import Latent, Transformer

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

SIZES = ("hidden", "heads", "q_rank", "kv_rank", "nope", "rope", "value")
NAMES = (
    "the bytes of the latent cache",
    "the bytes of a cache of all heads' keys and values",
    "the bytes kept for the backward",
    "the bytes kept if norms and up-projections are repeated",
)
BY_HAND: Case = dict(zip(SIZES, (8, 2, 4, 3, 2, 1, 2), strict=True))
DEEPSEEK_V3: Case = dict(zip(SIZES, (7168, 128, 1536, 512, 128, 64, 128), strict=True))


def expected(case: Case) -> list[float]:
    """The four numbers of NAMES."""
    sizes = Latent(*(case[name] for name in SIZES[2:]))
    heads = case["heads"]
    model = Transformer("latent", 1, case["hidden"], heads, heads, 1, 1, 1, head_dim=1, latent=sizes)
    both = 2 * heads * (sizes.nope + sizes.rope + sizes.value)
    kept = [latent_attention_bytes(model, expanded_again=again) for again in (False, True)]
    return [cache_bytes(model), both, *kept]


def _draw(rng: Random) -> list[Case]:
    """Seven different sizes, so that no two can be confused; DeepSeek-V2's, whose hidden size differs from V3's."""

    def case() -> Case:
        return dict(zip(SIZES, rng.sample(range(3, 90), len(SIZES)), strict=True))

    return [case(), case(), case() | {"heads": 1}, DEEPSEEK_V3 | {"hidden": 5120}]


CHECK = Check(
    exercise="week11.latent",
    points=2,
    optional=True,
    names=("latent_bytes",),
    public=(BY_HAND, DEEPSEEK_V3),
    draw=_draw,
    make=formula_task("latent_bytes", SIZES, expected),
    judge=judge_numbers(NAMES),
    program="without_ranks",
    masked=("shardlab.costs", "shardlab.model"),
    hints=(
        "Write one line per item that the text lists, in numbers, then multiply by 2 bytes; the two scales and the "
        "sums are fp32, 4 bytes.",
        "Widths: a latent exists before and after its norm; queries and keys have heads·(nope + rope) numbers; values "
        "and output have heads·value.",
        "Repeated: x, both latents before their norms, the shared rotary key, the output and the sums remain: "
        "2·(hidden + q_rank + kv_rank + ____ + heads·value) + 4·heads.",
    ),
)
