"""Our Adam is torch's, also on low-precision weights, and its state is 12 bytes per weight."""

import pytest
import torch
from shardlab.meter.held import storage_bytes
from shardlab.model import adam


def test_five_steps_are_torchs():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(7, generator=generator)
    parameter = torch.nn.Parameter(weights.clone())
    optimizer = torch.optim.Adam([parameter], lr=0.01)
    state = adam.new_state(weights)
    for _ in range(5):
        gradient = torch.randn(7, generator=generator)
        parameter.grad = gradient.clone()
        optimizer.step()
        adam.update(state, gradient, lr=0.01)
    torch.testing.assert_close(state["master"], parameter.detach())


def test_the_state_is_twelve_bytes_a_weight_and_no_view_of_it():
    weights = torch.ones(100, dtype=torch.bfloat16)
    state = adam.new_state(weights)
    assert storage_bytes(value for value in state.values() if isinstance(value, torch.Tensor)) == 1200
    adam.update(state, torch.ones(100, dtype=torch.bfloat16))
    assert weights.eq(1).all() and state["step"] == 1
    same = torch.ones(3)
    assert adam.new_state(same)["master"].data_ptr() != same.data_ptr()


def test_a_gradient_of_another_slice_is_refused():
    with pytest.raises(ValueError, match=r"shape \[6\] for a state of \[3\]"):
        adam.update(adam.new_state(torch.ones(3)), torch.ones(6))
