"""Choosing between layouts."""

import pytest
from shardlab.costs.validation.ranking import (
    bootstrap_interval,
    choices,
    choices_by_group,
    rank_correlation,
    regret,
    same_choice,
)
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


def test_the_bootstrap_draws_the_values_it_is_given():
    assert bootstrap_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert 0.5 - low == pytest.approx(1.645 * 0.5 / 10, rel=0.15) == high - 0.5  # the normal limit of a mean of 100
    assert bootstrap_interval([0.0, 0.4, 1.0], 0.5)[1] < bootstrap_interval([0.0, 0.4, 1.0])[1]
    assert bootstrap_interval([0.0, 0.4, 1.0]) == bootstrap_interval([0.0, 0.4, 1.0])
    with pytest.raises(ValueError, match="give one or more"):
        bootstrap_interval([])


def test_the_mean_of_groups_is_what_choices_say():
    runs = measured_runs()
    by_group = choices_by_group(runs, predict)
    correlation, lost, groups = choices(runs, predict)
    assert len(by_group) == groups
    assert sum(one for one, _ in by_group) / groups == pytest.approx(correlation)
    assert sum(one for _, one in by_group) / groups == pytest.approx(lost)
