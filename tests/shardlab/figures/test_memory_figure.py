"""The bars of memory: their numbers, their order, and the sentence."""

import pytest
from shardlab import figures

ROWS = {
    "DDP": {"parameters": 2 * 2**30, "optimizer": 12 * 2**30, "gradients": 2 * 2**30},
    "ZeRO-3": {"optimizer": 2**30},
}


def test_bars_are_stacked_in_one_order_and_end_with_their_total():
    _, ax = figures.new_axes()
    sentence = figures.draw_memory(ax, ROWS, title="It fits", limit=8 * 2**30, limit_label="a GPU", unit="GiB")
    lefts = [(bar.get_x(), bar.get_width()) for bar in ax.patches if bar.get_width()]
    assert lefts == [(0, 2), (2, 2), (4, 12), (0, 1)]
    texts = [text.get_text() for text in ax.texts]
    assert "16.0" in texts and "1.0" in texts and "a GPU, 8 GiB" in texts
    assert sentence == (
        "In words: It fits. DDP: 16.0 GiB (parameters 2.0, gradients 2.0, optimizer 12.0); "
        "ZeRO-3: 1.0 GiB (optimizer 1.0). Above a GPU (8 GiB): DDP."
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["parameters", "gradients", "optimizer"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [({}, "at least one row"), ({"a": {"weights": 1}}, "use parameters"), ({"a": {"gradients": -1}}, "0 bytes")],
)
def test_bars_that_cannot_be_drawn(rows, message):
    _, ax = figures.new_axes()
    with pytest.raises(ValueError, match=message):
        figures.draw_memory(ax, rows, title="")


def test_memory_is_counted_in_the_unit_of_the_page():
    _, ax = figures.new_axes()
    sentence = figures.draw_memory(
        ax, {"DDP": {"parameters": 14e9}}, title="Too much", limit=80e9, limit_label="one GPU"
    )
    assert sentence == "In words: Too much. DDP: 14.0 GB (parameters 14.0). Above one GPU (80 GB): none."
    assert ax.get_xlabel() == "GB on one rank" and "one GPU, 80 GB" in [text.get_text() for text in ax.texts]
    with pytest.raises(ValueError, match="use GB or GiB"):
        figures.draw_memory(ax, ROWS, title="", unit="MB")


@pytest.mark.parametrize(("limit", "side"), [(1 * 2**30, "left"), (8 * 2**30, "right")])
def test_the_name_of_the_limit_stands_where_there_is_room(limit, side):
    _, ax = figures.new_axes()
    figures.draw_memory(ax, {"a rank": {"parameters": 9 * 2**30}}, title="", limit=limit)
    assert next(text for text in ax.texts if "the device" in text.get_text()).get_ha() == side
