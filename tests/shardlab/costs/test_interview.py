"""The oral questions: every answer is computed for every setting, none has a literal number, known ones match."""

import math
import re
from dataclasses import replace
from string import Formatter

import pytest
from shardlab.costs import Layout, find_accelerator, find_model
from shardlab.study.interview import QUESTIONS, Setting, asked_in_random_order
from shardlab.study.interview.asking import asked

H100 = find_accelerator("h100")
LLAMA = Setting(
    find_model("llama3-70b"),
    Layout(tp=8, pp=4, dp=16, num_microbatches=64, zero=1, sequence_parallel=True),
    H100,
    tokens=2e12,
)
SETTINGS = {
    "llama": LLAMA,
    "one GPU": Setting(find_model("gpt2"), Layout(num_microbatches=8), find_accelerator("a100"), tokens=1e10),
    "experts": Setting(
        find_model("deepseek-v3"), Layout(pp=16, dp=128, ep=64, num_microbatches=120, zero=1), H100, tokens=14.8e12
    ),
    "context": Setting(
        find_model("llama3-405b"),
        Layout(tp=8, cp=4, pp=7, dp=2, num_microbatches=14, virtual=2, zero=1, sequence_parallel=True),
        H100,
        tokens=1e12,
        hours_of_one=9_000.0,
    ),
}
NAMES = re.compile(
    r"\bH100s?\b|\b1F1B\b|\bZB-H1\b|\bZeRO-[123]\b|\bDeepSeek-V3\b|\bGPT-3 175B\b|\b(bf|fp|float)\d+\b"
    r"|[Nmp]−1|c > 1 \+ h"  # formulas in letters
)
COUNTED = re.compile(r"\b(eleven|twelve|sixteen|twenty|thirty|forty|hundred|thousand|million|billion|percent)\b")


def texts(template: str) -> str:
    """A template without its fields, and without names and formulas that contain a digit."""
    return NAMES.sub("", "".join(literal for literal, *_ in Formatter().parse(template)))


def test_there_are_at_least_thirty_and_every_week_asks():
    assert len(QUESTIONS) >= 30
    assert len({question.asked for question in QUESTIONS}) == len(QUESTIONS)
    assert {question.week for question in QUESTIONS} == {f"week{week:02}" for week in range(1, 17)}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
def test_no_number_is_written_into_a_text(question):
    for template in (question.asked, question.answer):
        assert not re.search(r"\d", texts(template)), texts(template)
    units = {"million", "thousand", "billion", "trillion"}  # next to a computed number
    for word in COUNTED.findall(texts(question.answer)):
        assert word in units and re.search(rf"\{{[^}}]*\}} {word}", question.answer)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_answer_is_computed_for_every_setting(question, name):
    numbers = question.numbers(SETTINGS[name])
    assert all(math.isfinite(value) for value in numbers.values() if not isinstance(value, str))
    used = {field for template in (question.asked, question.answer) for _, field, *_ in Formatter().parse(template)}
    assert set(numbers) == used - {None}, "a number is computed in vain, or is missing"
    ready = asked(question, SETTINGS[name])
    assert re.search(r"\d", ready.answer) and "{" not in ready.question + ready.answer


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
def test_own_numbers_are_those_of_the_setting(question):
    assert (len({asked(question, setting) for setting in SETTINGS.values()}) > 1) == question.own


def test_the_order_is_another_each_time_and_nothing_is_left_out():
    first, second = (asked_in_random_order(LLAMA, seed) for seed in (1, 2))
    assert first != second and sorted(map(str, first)) == sorted(map(str, second))
    assert first == asked_in_random_order(LLAMA, 1) and len(first) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("begins", "says"),
    [
        ("You go from", "1.125"),
        ("A step computes", "Without overlap, 56%"),
        ("A model of", "1.6 GB with DDP, then 1.0, 0.9 and 0.8 GB"),
        ("GPT-3 175B", "4.23 GB per microbatch"),
        ("Two stages", "50%, 80% and 89%"),
        ("{experts} experts on {nodes}", "5.29 on average, and 3.63"),
        ("EP {gpus} or TP", "176 MB per GPU in a forward, TP 235 MB"),
        ("DeepSeek-V3 reports", "180 thousand GPU hours, 3.7 days on 2,048 GPUs"),
        ("{gpus:,} GPUs had", "every 3.1 hours"),
        ("{layers} layers", "24 all-reduces of 4 MiB, about 3.1 ms"),
    ],
)
def test_answers_that_are_known_from_the_weeks_and_from_papers(begins, says):
    (question,) = [question for question in QUESTIONS if question.asked.startswith(begins)]
    assert says in asked(question, LLAMA).answer


def test_a_setting_knows_its_costs():
    assert LLAMA.days * LLAMA.tokens_per_step == pytest.approx(LLAMA.tokens * LLAMA.step.total / 86400)
    assert replace(LLAMA, dollars=4.0).days == LLAMA.days
    assert pytest.approx(50_000 / 512) == LLAMA.between / 3600
