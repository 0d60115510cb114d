"""Inside an overlapped pair: no piece begins before what it waits for, and no lane does two things at once."""

from itertools import pairwise

import pytest
from shardlab.figures.page import new_axes
from shardlab.figures.pair import BACKWARD, FORWARD, draw_pair, pair_pieces


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seconds", [(1.0, 2.0, 0.5), (1.0, 2.0, 1.0), (0.3, 1.7, 0.4), (2.0, 1.0, 0.0)])
def test_pieces_wait_for_their_own_microbatch_and_lanes_hold_one_at_a_time(seconds, together):
    pieces = {piece.name: piece for piece in pair_pieces(*seconds, together=together)}
    assert pieces.keys() == {*FORWARD, *BACKWARD}
    for half in (FORWARD, BACKWARD):
        for before, after in pairwise(half):
            assert pieces[before].end <= pieces[after].begin
    for lane in (0, 1):
        mine = sorted((piece.begin, piece.end) for piece in pieces.values() if piece.lane == lane)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(mine))


@pytest.mark.parametrize(
    ("seconds", "in_turn", "as_a_pair"),
    [((1.0, 2.0, 0.5), 5.0, 3.0), ((1.0, 2.0, 1.0), 7.0, 4.0), ((1.0, 2.0, 0.0), 3.0, 3.0)],
)
def test_a_pair_takes_the_longer_lane(seconds, in_turn, as_a_pair):
    lasts = [max(piece.end for piece in pair_pieces(*seconds, together=together)) for together in (False, True)]
    assert lasts == [in_turn, as_a_pair]


def test_the_figure_says_both_times():
    figure, ax = new_axes(9.0, 2.8)
    sentence = draw_pair(ax, 1.0, 2.0, 0.5)
    assert "take 5 s" in sentence and sentence.endswith("of the other half, 3 s.") and figure is not None
    assert [label.get_text() for label in ax.get_yticklabels()][2] == "as a pair: device"
    with pytest.raises(ValueError, match="give seconds, 0 or more"):
        draw_pair(ax, -1.0, 2.0, 0.5)
