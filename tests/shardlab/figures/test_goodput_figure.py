"""Goodput against the interval as a figure, and the oral exam as text and as a widget."""

import ipywidgets as widgets
import numpy as np
import pytest
from shardlab import figures
from shardlab.costs import Layout, failures, find_accelerator, find_model
from shardlab.costs.interview import QUESTIONS, Setting, asked_in_random_order

SETTING = Setting(find_model("llama2-7b"), Layout(dp=8, num_microbatches=4, zero=1), find_accelerator("h100"), 1e12)


def test_the_curve_is_the_formula_and_its_best_is_marked():
    _, ax = figures.new_axes()
    best = failures.best_interval(3, 11_000)
    sentence = figures.draw_goodput(ax, 3, 11_000, 300, played={best: 0.9}, title="Flat")
    curve, dots, line = ax.lines
    minutes, shares = (np.asarray(data) for data in curve.get_data())
    assert shares == pytest.approx([failures.goodput(60 * tau, 3, 11_000, 300) for tau in minutes])
    assert np.asarray(dots.get_xdata()) == pytest.approx([best / 60])
    assert np.asarray(line.get_xdata()) == pytest.approx([best / 60] * 2)
    share = failures.goodput(best, 3, 11_000, 300)
    assert f"{best / 60:.1f} minutes, with {share:.1%} of the time as work" in sentence
    assert f"Played, with the formula: 90.0% ({share:.1%})." in sentence


def test_without_played_points_nothing_is_said_of_them():
    _, ax = figures.new_axes()
    assert "Played" not in figures.draw_goodput(ax, 3, 11_000, 0, title="Flat")


def test_questions_are_shown_with_their_answers_folded(monkeypatch):
    shown = []
    monkeypatch.setattr("shardlab.figures.oral.display", shown.append)
    figures.show_questions(SETTING, seed=3, count=2)
    (page,) = shown
    first, second = asked_in_random_order(SETTING, 3)[:2]
    assert page.data.index("1. ") < page.data.index("<details>") < page.data.index("2. ")
    assert page.data.count("<details>") == 2
    assert all(one.question[:12].split("&")[0] in page.data for one in (first, second))


def test_the_widget_asks_every_question_once_before_it_begins_again():
    exam = figures.oral_exam(SETTING, seed=5)
    page, onward = exam.children
    assert isinstance(page, widgets.HTML) and isinstance(onward, widgets.Button)
    seen = []
    for _ in QUESTIONS:
        seen.append(page.value)
        onward.click()
    assert len(set(seen)) == len(QUESTIONS) and page.value == seen[0]
    assert f"Question 1 of {len(QUESTIONS)}" in seen[0]
