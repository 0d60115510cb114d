"""Animations: one picture at a time, all sentences for readers without scripts, frames from the data of a lesson."""

import re

import pytest
from bs4 import BeautifulSoup
from shardlab import figures
from shardlab.figures.animation import Frame

from autograder.weeks.week04_fsdp.plan import window_plan

FRAMES = [Frame("<svg></svg>", "First, 1 < 2."), Frame("<svg></svg>", "Then.")]
CHOICES = [[[1, 0], [1, 2]], [[3, 2], [3, 0]]]


# ---- The HTML: readable without scripts, by keyboard and by ear, and loading nothing ---------------------------------


def html_of(animation) -> BeautifulSoup:
    return BeautifulSoup(animation._repr_html_(), "html.parser")


def test_without_scripts_the_first_picture_and_all_sentences_are_shown():
    page = html_of(figures.animate("Two steps", FRAMES))
    first, second = page.select(".picture")
    assert not first.has_attr("hidden") and second.has_attr("hidden") and page.details.has_attr("open")
    assert [one.text for one in page.select("li")] == ["First, 1 < 2.", "Then."]
    assert page.select_one(".controls").has_attr("hidden")  # the buttons do nothing without the script


def test_an_animation_can_be_focused_and_says_each_step():
    page = html_of(figures.animate("Two steps", FRAMES))
    root = page.select_one(".steps")
    assert (root["role"], root["tabindex"], root["aria-label"]) == ("group", "0", "Two steps")
    assert page.select_one(".words")["aria-live"] == "polite"
    assert [one["aria-label"] for one in page.select("svg")] == ["First, 1 < 2.", "Then."]


def test_an_animation_loads_nothing():
    assert not re.search(r"https?:|src=|href=|url\(|fetch\(|import ", figures.animate("x", FRAMES)._repr_html_())


def test_an_animation_is_a_list_of_sentences_where_html_is_not_shown():
    assert repr(figures.animate("Two steps", FRAMES)) == "Two steps\n1. First, 1 < 2.\n2. Then."


@pytest.mark.parametrize(
    ("frames", "sentence"),
    [(FRAMES[:1], "give at least two"), ([*FRAMES, Frame("<svg></svg>", " ")], "frame 3 has no sentence")],
)
def test_frames_that_cannot_be_stepped_or_read_are_refused(frames, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.animate("x", frames)


# ---- FSDP: the frames follow the plan --------------------------------------------------------------------------------


def texts(frame):
    return [one.text for one in BeautifulSoup(frame.svg, "html.parser").find_all("text")]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_each_event_of_a_plan_is_a_frame_with_the_slices_held(prefetch):
    plan = window_plan(3, prefetch)
    frames = figures.gather_frames(plan, 4)
    assert len(frames) == 1 + len(plan)
    held = 0
    for event, frame in zip(plan, frames[1:], strict=True):
        held += event.startswith("gather") - event.startswith("free")
        assert texts(frame).count(f"{3 + 3 * held} of 12") == 4 and frame.sentence.lower().startswith(event)
    assert frames[-1].sentence.endswith("none.")


@pytest.mark.parametrize(
    ("plan", "sentence"), [(["gather one"], "no event"), (["forward 0"], "gather it first"), (["fly 0"], "no event")]
)
def test_a_plan_that_cannot_run_is_refused(plan, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.gather_frames(plan, 2)


# ---- The ring: every block of keys visits every rank, and every visible block is computed once -----------------------


@pytest.mark.parametrize("layout", ["contiguous", "zig-zag", "striped"])
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_the_ring_computes_every_visible_block_once(layout, num_ranks):
    owners = figures.chunk_owners(layout, num_ranks)
    frames = figures.ring_frames(owners)
    keys = [[text for text in texts(frame) if text.startswith("KV")] for frame in frames]
    assert len(frames) == num_ranks and all(
        len({step[rank] for step in keys}) == num_ranks for rank in range(num_ranks)
    )
    cells = [text for text in texts(frames[-1]) if text.isdecimal()]
    assert len(cells) == len(owners) * (len(owners) + 1) // 2


def test_a_contiguous_ring_says_who_has_nothing_to_do():
    first, last = (figures.ring_frames(figures.chunk_owners("contiguous", 4))[step].sentence for step in (0, 3))
    assert "Each computes 0.5 blocks of scores." in first
    assert "computed: 0 by rank 0, 0 by rank 1, 0 by rank 2, 1 by rank 3." in last and last.endswith(
        "Nothing more is sent."
    )


# ---- Experts: rows leave for the ranks that the router chose, and come back ------------------------------------------


def test_rows_are_sorted_by_expert_sent_and_returned():
    tokens, rows, dispatch, experts, combine, sums = figures.dispatch_frames(CHOICES, 4)
    assert [text for text in texts(rows) if re.fullmatch(r"\w \d", text)] == [
        "a 0", "a 1", "b 1", "b 2", "d 0", "c 2", "c 3", "d 3",
    ]  # fmt: skip
    assert dispatch.sentence == (
        "Dispatch, an all-to-all: rank 0 keeps 3 rows and sends 1 to rank 1; rank 1 keeps 3 rows and sends 1 to rank 0."
    )
    assert "expert 0 has 2, expert 1 has 2, expert 2 has 2, expert 3 has 2" in experts.sentence
    assert dispatch.svg.count("<polygon") == combine.svg.count("<polygon") == 8 and tokens.svg == sums.svg


@pytest.mark.parametrize(
    ("choices", "experts", "sentence"),
    [(CHOICES, 3, "cannot be split over 2 ranks"), (CHOICES, 2, "no expert 2"), ([[[0]] * 25], 1, "cannot be read")],
)
def test_choices_that_cannot_be_drawn_are_refused(choices, experts, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.dispatch_frames(choices, experts)
