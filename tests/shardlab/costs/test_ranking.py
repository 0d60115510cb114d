"""Choosing between layouts."""

import pytest
from shardlab.costs.validation.ranking import choices, rank_correlation, regret, same_choice
from shardlab.costs.validation.validate import measured_runs, predict


def test_rank_correlation_of_known_orders():
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3], [5, 5, 5]) == 0
    assert rank_correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1)
    with pytest.raises(ValueError, match="2 or more"):
        rank_correlation([1], [1])


def test_regret_is_what_the_choice_costs():
    assert regret([10, 12, 11], [5, 9, 8]) == 0
    assert regret([10, 12, 11], [5, 3, 8]) == pytest.approx(0.2)


def test_groups_differ_in_their_layout_only():
    groups = same_choice(measured_runs())
    assert len(groups) >= 5
    assert all(len({(run.model, run.layout.world) for run in group}) == 1 for group in groups)
    assert all(len({run.layout for run in group}) == len(group) for group in groups)


def test_predictions_choose_better_than_chance():
    correlation, lost, _ = choices(measured_runs(), predict)
    assert correlation > 0.4 and lost < 0.1  # one utilisation for all layouts: 0 and 0.11
