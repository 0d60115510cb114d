"""The questions of the cumulative quizzes. A seed draws their numbers; the grader computes the answers with `costs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

Numbers = dict[str, float]


@dataclass(frozen=True)
class Question:
    """A question with its unit; each {name} of its text is drawn from `choices`."""

    text: str
    choices: Mapping[str, Sequence[float]]


SIZES, HIDDEN, BATCHES = (2, 3, 4, 6, 8), (2048, 4096, 5120, 8192), (1, 2, 4)

FIRST = (
    Question("Ring all-reduce of {mb} MB on {n} ranks. How many MB does each rank send?",
             {"mb": (24, 60, 96, 240), "n": (3, 4, 5, 8, 16)}),
    Question("The same ring on {n} ranks. How many messages does each rank send?", {"n": (3, 5, 8, 16, 64)}),
    Question("Ring all-reduce of {mb} MB on {n} ranks; each link carries {gbps} GB/s, and every message also costs "
             "{us} µs. How many ms does it take?",
             {"mb": (4, 8, 24), "n": (4, 8, 16), "gbps": (10, 25, 50), "us": (10, 20)}),
    Question("A step computes for {compute} ms and communicates for {communicate} ms, of which {hidden} ms overlap "
             "with the computation. What is the communication efficiency, in %?",
             {"compute": (20, 50, 80), "communicate": (12, 16, 30), "hidden": (0, 4, 10)}),
    Question("{billions} billion parameters, Adam in mixed precision (16 bytes per parameter), ZeRO-1 on {n} ranks. "
             "How many GB of model states does a rank hold?",
             {"billions": (1, 7, 13), "n": (8, 16, 64)}),
    Question("Model states as in the previous question, but ZeRO-2: {billions} billion parameters, {n} ranks. How many "
             "GB per rank?",
             {"billions": (1, 7, 13), "n": (4, 8, 32)}),
    Question("ZeRO-3 on {n} ranks: {billions} billion parameters, weights and gradients travel in bf16; the backward "
             "gathers the weights again. How many GB does a rank send per step?",
             {"billions": (1, 7, 13), "n": (8, 16, 64)}),
    Question("{parameters} parameters are padded and split evenly over {n} ranks. How many elements has a shard?",
             {"parameters": (1857, 10_001, 65_537), "n": (2, 4, 8, 12)}),
    Question("Tensor parallelism over {t} ranks: a layer's forward and backward make four all-reduces of an activation "
             "[b={b}, s={s}, h={h}] in bf16, as rings. How many MB does a rank send in all four?",
             {"t": (2, 4, 8), "b": BATCHES, "s": (1024, 2048, 4096), "h": HIDDEN}),
    Question("Activations of one GPT layer with tensor and sequence parallelism over {t} ranks, in bf16 with dropout, "
             "attention scores kept, no recomputation: b={b}, s={s}, h={h}, {a} heads. How many MB per rank?",
             {"t": (2, 4, 8), "b": BATCHES, "s": (1024, 2048), "h": HIDDEN, "a": (32, 64)}),
)  # fmt: skip

SECOND = (
    Question("1F1B, {p} stages, {m} microbatches. What share of the time is bubble, in %?",
             {"p": (4, 8, 12, 16), "m": (16, 32, 48, 96)}),
    Question("Interleaved 1F1B, {p} stages with {v} chunks each, {m} microbatches. What share of the time is bubble, "
             "in %?",
             {"p": (4, 8, 16), "m": (16, 32, 64), "v": (2, 3, 4)}),
    Question("What is the smallest number of microbatches with which 1F1B on {p} stages has a bubble below {share}%?",
             {"p": (4, 6, 8, 16), "share": (5, 10, 15, 20)}),
    Question("1F1B on {p} stages with {m} microbatches: how many microbatches' activations does stage {i} hold at "
             "most? (The first stage is 0.)",
             {"p": (6, 8), "m": (3, 5, 32), "i": (0, 1, 3)}),
    Question("A mesh of dp × pp × tp = {dp} × {pp} × {tp}; neighbors in tp are neighbors in rank, dp is outermost. In "
             "which pipeline stage is rank {rank}?",
             {"dp": (8, 16), "pp": (2, 3, 4), "tp": (2, 4, 8), "rank": (13, 19, 22, 29)}),
    Question("{gpus} GPUs with a peak of {peak} TFLOP/s each train a model of {billions} billion parameters, at "
             "{tokens} tokens per second and GPU. What is the MFU in %, with 6 FLOPs per parameter and token?",
             {"gpus": (64, 256), "peak": (756, 989), "billions": (7, 8, 13), "tokens": (4000, 5000, 5500)}),
    Question("An all-to-all dispatches {tokens} tokens per rank to the top {k} of many experts, h={h} in bf16, over "
             "{ep} ranks with even loads. How many MB does a rank send to other ranks in this one dispatch?",
             {"tokens": (1024, 4096, 16_384), "k": (1, 2, 8), "h": HIDDEN, "ep": (4, 8, 16)}),
    Question("Top-{k} routing of {tokens} tokens to {experts} experts at random. How many tokens does an expert get on "
             "average?",
             {"k": (1, 2, 8), "tokens": (1024, 4096, 8192), "experts": (32, 64, 256)}),
    Question("From the first weeks: hierarchical all-reduce of {mb} MB over {nodes} nodes of {each} ranks. How many MB "
             "does a rank send to other nodes?",
             {"mb": (64, 256, 1024), "nodes": (2, 4, 8), "each": (4, 8)}),
    Question("From the first weeks: ZeRO-3 states of {billions} billion parameters (16 bytes each) on {n} ranks. How "
             "many GB per rank?",
             {"billions": (7, 13, 70), "n": (16, 64, 512)}),
)  # fmt: skip

QUIZZES = {1: FIRST, 2: SECOND}


def numbers(quiz: int, seed: int) -> dict[int, Numbers]:
    """The numbers of each question of a quiz, from 1: the same seed always gives the same."""
    rng = Random(f"{quiz} {seed}")
    return {
        place: {name: rng.choice(values) for name, values in question.choices.items()}
        for place, question in enumerate(QUIZZES[quiz], 1)
    }


def ask(quiz: int, seed: int) -> None:
    """Print the questions of a quiz with the numbers of this seed."""
    for place, found in numbers(quiz, seed).items():
        shown = {name: f"{value:,}" for name, value in found.items()}
        print(f"{place:2}. {QUIZZES[quiz][place - 1].text.format(**shown)}")
