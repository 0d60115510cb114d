"""The contents of figures, in their texts and sentences, and that their colors can be distinguished."""

import io
import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from shardlab import figures
from shardlab.figures.labels import written_bytes, written_seconds
from shardlab.figures.page import as_html, png
from shardlab.figures.palette import PALETTE, fonts, luminance, text_colour
from shardlab.figures.ring import ring_messages, ring_table

POINTS = [(6, 1e3, 4e-4), (6, 1e5, 5e-4), (6, 1e7, 1.1e-2)]

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009,
# severity 1.0, on linear RGB.
SEEN_WITH = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, vision):
    """CIE L*a*b* (D65) of a color as perceived with this type of vision."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(SEEN_WITH[vision]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = (np.array(to_xyz) @ linear / [0.9505, 1.0, 1.089]).clip(1e-6)
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", SEEN_WITH)
def test_every_two_colours_can_be_told_apart(vision):
    for first, second in combinations(PALETTE, 2):
        difference = np.linalg.norm(lab(PALETTE[first], vision) - lab(PALETTE[second], vision))
        assert difference > 15, f"{first} and {second} look alike with {vision}: {difference:.0f}"


def test_forward_backward_and_weights_are_three_greys():
    lightness = sorted(lab(PALETTE[name], "all cones")[0] for name in ("forward", "backward", "weights"))
    assert min(np.diff(lightness)) > 12


@pytest.mark.parametrize("colour", PALETTE.values())
def test_text_on_a_colour_can_be_read(colour):
    inks = sorted([luminance(colour), luminance(text_colour(colour))])
    assert (inks[1] + 0.05) / (inks[0] + 0.05) >= 4.5


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


def test_a_table_ends_with_sums_and_chunks_travel_once_a_step():
    for num_ranks in (2, 3, 4, 7):
        last = 2 * (num_ranks - 1)
        for step in range(last):
            messages = ring_messages(num_ranks, step)
            assert sorted(m.chunk for m in messages) == sorted(m.source for m in messages) == list(range(num_ranks))
            assert all(m.destination == (m.source + 1) % num_ranks for m in messages)
        everyone = frozenset(range(num_ranks))
        assert ring_table(num_ranks, last) == [[everyone] * num_ranks] * num_ranks
        half_way = ring_table(num_ranks, num_ranks - 1)
        for rank in range(num_ranks):
            assert [chunk for chunk in range(num_ranks) if half_way[rank][chunk] == everyone] == [rank]


def test_the_first_step_sends_the_chunk_left_of_ones_own():
    assert [(m.source, m.chunk) for m in ring_messages(4, 0)] == [(0, 3), (1, 0), (2, 1), (3, 2)]


def test_the_two_rank_picture_adds_the_numbers_up():
    numbers = [[1, 2, 3, 4], [10, 20, 30, 40]]
    cells = []
    for step in range(3):
        _, ax = figures.new_axes()
        figures.draw_ring_step(ax, 2, step, numbers=numbers)
        cells.append([text for text in texts_of(ax) if "rank" not in text])
    assert cells[0] == ["1  2", "3  4", "10  20", "30  40"]
    assert cells[1] == ["11  22", "3  4", "10  20", "33  44"]
    assert cells[2] == ["11  22", "33  44"] * 2


def test_a_ring_step_says_who_sends_what():
    _, ax = figures.new_axes()
    sentence = figures.draw_ring_step(ax, 4, 1)
    assert sentence.startswith("In words: in step 1 (reduce-scatter) rank 0 sends chunk 2 to rank 1")
    assert "Step 1 of 6" in ax.get_title(loc="left")


@pytest.mark.parametrize(("num_ranks", "step"), [(1, 0), (9, 0), (4, 7), (4, -1)])
def test_a_ring_that_cannot_be_drawn(num_ranks, step):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match=r"draw 2 to 8|use 0 to 6"):
        figures.draw_ring_step(ax, num_ranks, step)


def test_the_stepper_redraws_picture_and_sentence():
    stepper = figures.ring_stepper(4)
    slider, page = stepper.children
    assert (slider.description, slider.min, slider.max) == ("Step", 0, 6)
    first = page.value
    slider.value = 6
    assert page.value != first
    assert "16 of 16 cells hold the whole sum" in page.value
    assert re.search(r'<img alt="In words: [^"]+" width="\d+" src="data:image/png;base64,', page.value)


def test_bars_carry_their_numbers_and_the_limit_they_cross():
    _, ax = figures.new_axes()
    sentence = figures.draw_bars(ax, {"fits": 5e9, "does not": 98e9}, title="Too much", limit=80e9, limit_label="a GPU")
    assert texts_of(ax) == ["5 GB", "98 GB", "a GPU, 80 GB "]
    assert sentence == "In words: Too much. fits: 5 GB; does not: 98 GB. Above a GPU (80 GB): does not."
    assert [bar.get_width() for bar in ax.patches] == [5e9, 98e9]


def test_traffic_has_a_bar_and_a_formula_for_each_collective():
    _, ax = figures.new_axes()
    sentence = figures.draw_traffic(ax, 8, 14e9)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert "all-reduce, ring\n2(N-1)/N · S" in labels and len(labels) == 7
    assert "all-reduce, ring 24.5 GB" in sentence and "naive (rank 0) 98 GB" in sentence


def test_a_measurement_carries_its_distance_from_the_prediction():
    _, ax = figures.new_axes()
    sentence = figures.draw_predicted_against_measured(ax, POINTS, 5e-5, 1e-9)
    assert texts_of(ax) == ["predicted,\n6 messages", "+33%", "+25%", "+7%"]
    assert "by 25% in the median and by +33% at most, at 1 KB" in sentence
    assert "alpha = 50 µs per message and beta = 1 s per gigabyte" in sentence


def test_ring_and_tree_cross_where_the_formula_says():
    _, ax = figures.new_axes()
    assert "faster below 80 KB" in figures.draw_ring_against_tree(ax, 4, 1e-4, 1e-9, ring=[(1e3, 1e-3)])
    _, ax = figures.new_axes()
    assert "never slower" in figures.draw_ring_against_tree(ax, 2, 1e-4, 1e-9)


def test_show_gives_the_picture_an_alt_text_and_a_caption(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(
        "shardlab.figures.page.display", lambda data, metadata=None, raw=False: shown.append((data, metadata))
    )
    figure, ax = figures.new_axes(4, 2)
    sentence = figures.draw_bars(ax, {"a": 1.0}, title="1 < 2")
    figures.show(figure, sentence)
    (data, metadata), (below, _) = shown
    assert metadata["image/png"]["alt"] == below["text/plain"] == sentence
    assert "<summary>In words</summary>1 &lt; 2. a: 1 B.</details>" in below["text/html"]
    assert imread(io.BytesIO(data["image/png"])).shape[:2] == (320, 640)
    assert capsys.readouterr().out == ""  # terminal text would break inside words
    with pytest.raises(ValueError, match="needs its sentence"):
        figures.show(figure, " ")


@pytest.mark.parametrize(
    ("title", "place", "sentence", "folded"),
    [
        ("Too much", "left", "In words: Too much. a: 1 B.", True),
        ("Too\nmuch", "center", "In words: Too much. a: 1 B.", True),
        ("Too much", "left", "In words: two ranks hold too much.", False),
        ("", "left", "In words: Too much. a: 1 B.", False),
    ],
)
def test_words_are_folded_where_they_repeat_the_title(title, place, sentence, folded):
    figure, ax = figures.new_axes(4, 2)
    ax.set_title(title, loc=place)
    html = as_html(figure, sentence)
    assert html.count("<details") == folded and f'alt="{sentence}"' in html


def test_a_figure_brings_its_own_white_page_into_a_dark_jupyterlab():
    figure, ax = figures.new_axes(4, 2)
    figures.draw_bars(ax, {"a": 1.0}, title="One")
    picture = imread(io.BytesIO(png(figure)))
    corners = picture[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert (corners == 1.0).all(), "a black text on a page that shows through could not be read"


def test_drawing_twice_gives_the_same_bytes():
    pictures = []
    for _ in range(2):
        figure, ax = figures.new_axes(3, 2)
        figures.draw_ring_step(ax, 2, 0)
        pictures.append(png(figure))
    assert pictures[0] == pictures[1]


def test_chinese_is_written_where_the_machine_has_a_font_for_it(recwarn):
    assert fonts()[0] == "DejaVu Sans"
    if len(fonts()) == 1:
        pytest.skip("no Chinese font on this machine")
    figure, ax = figures.new_axes(3, 2)
    ax.set_title("集合通信")
    png(figure)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 B"), (999, "999 B"), (1e3, "1 KB"), (24.5e9, "24.5 GB"), (999999, "1 MB")]
)
def test_bytes_are_written_in_the_unit_that_fits(num_bytes, text):
    assert written_bytes(num_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(3.92, "3.92 s"), (0.49, "490 ms"), (5e-5, "50 µs"), (-2e-3, "-2 ms")])
def test_seconds_are_written_in_the_unit_that_fits(seconds, text):
    assert written_seconds(seconds) == text


def test_throughput_is_compared_with_one_rank_and_with_the_cores():
    _, ax = figures.new_axes(7, 2.4)
    words = figures.draw_throughput(ax, {1: 1000.0, 2: 1900.0, 4: 1700.0}, cores=2)
    assert words.endswith("1,000 tokens per second; 2 ranks 1.90 times as many, 4 ranks 1.70 times as many.")
    assert ax.get_title(loc="left") == "4 ranks train 1.7 times as fast as one here"
    assert list(ax.get_lines()[1].get_ydata()) == [1000, 2000, 2000]
    with pytest.raises(ValueError, match="also measure one rank"):
        figures.draw_throughput(ax, {2: 10.0}, cores=2)
