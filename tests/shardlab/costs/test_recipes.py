"""Bytes per parameter: 16, 18, 20, and the results of Megatron's and DeepSeek's choices."""

import pytest
from shardlab.costs.memory.states import zero_state_bytes

from tests.shardlab.costs.recipes import RECIPES, bytes_per_parameter


def test_whole_parameters_cost_sixteen_eighteen_or_twenty():
    assert {name: recipe.total for name, recipe in RECIPES.items()} == {
        "mixed": 16,
        "bf16-fp32-gradients": 18,
        "fp16-megatron": 20,
        "fp32": 16,
        "deepseek-v3": 14,
    }
    assert all(bytes_per_parameter(name, 64, stage=0) == recipe.total for name, recipe in RECIPES.items())


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_megatron_s_table_of_its_distributed_optimizer(d):
    assert bytes_per_parameter("bf16-fp32-gradients", d) == 6 + 12 / d
    assert bytes_per_parameter("fp16-megatron", d) == 4 + 16 / d
    assert bytes_per_parameter("fp32", d) == 8 + 8 / d


@pytest.mark.parametrize("stage", range(4))
def test_the_stages_are_the_paper_s(stage):
    assert bytes_per_parameter("mixed", 8, stage) == zero_state_bytes(1, 8, stage).total
    due = zero_state_bytes(1, 8, stage, gradient_bytes=4).total
    assert bytes_per_parameter("bf16-fp32-gradients", 8, stage) == pytest.approx(due)


@pytest.mark.parametrize("wrong", [{"recipe": "int4"}, {"stage": 4}, {"num_ranks": 0}])
def test_what_there_is_not_gets_a_sentence(wrong):
    with pytest.raises(ValueError, match="use mixed, bf16-fp32-gradients"):
        bytes_per_parameter(**({"recipe": "mixed"} | wrong))
