"""The square of an all-to-all: a number for each pair, and what arrives below."""

import pytest
from shardlab.figures import draw_exchange, new_axes


def test_each_pair_has_its_rows_and_each_rank_what_arrives():
    _, ax = new_axes()
    sentence = draw_exchange(ax, [[1, 2], [0, 3]])
    at = {text.get_position(): text.get_text() for text in ax.texts}
    assert [at[x, y] for y in (0.5, 1.5) for x in (0.5, 1.5)] == ["1", "2", "0", "3"]
    assert [text.get_text() for text in ax.texts if text.get_verticalalignment() == "top"][:2] == ["1", "5"]
    assert sentence == (
        "In words: 6 rows among 2 ranks, 67% stay at home. Ranks receive 1, 5. Fullest over mean is 1.667."
    )


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "for each of 1 to 16 ranks"),
        ([[1, 2], [3]], "give a row of 2 counts"),
        ([[1, -2], [3, 1]], "0 or more"),
        ([[1] * 17] * 17, "for each of 1 to 16 ranks"),
        ([[0, 0], [0, 0]], "give at least one"),
    ],
)
def test_what_cannot_be_drawn_is_named_with_what_can(rows, sentence):
    _, ax = new_axes()
    with pytest.raises(ValueError, match=sentence):
        draw_exchange(ax, rows)
