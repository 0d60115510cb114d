"""Parts of a model: Adam as data, rotary positions."""

import pytest
import torch
from shardlab.meter.held import storage_bytes
from shardlab.model import adam
from shardlab.model.attention import angles, rotated
from shardlab.model.gpt import GPT, GPTConfig
from torch import nn

# ---- Our Adam matches torch's, also on low-precision weights, and its state is 12 bytes per weight -------------------


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


# ---- Rotary positions: scores depend only on position differences, and the model's defaults are unchanged ------------


def test_scores_depend_on_differences_of_positions():
    q, k = torch.randn(2, 1, 3, 6, 8, dtype=torch.float64)
    here, there = angles(torch.arange(6), 8), angles(torch.arange(6) + 41, 8)
    scores = [rotated(q, turns) @ rotated(k, turns).transpose(-1, -2) for turns in (here, there)]
    torch.testing.assert_close(*scores, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(scores[0], q @ k.transpose(-1, -2))


def test_a_pair_turns_by_its_angle():
    turned = rotated(torch.tensor([[[[1.0, 0.0]]]]), angles(torch.tensor([3]), 2))
    torch.testing.assert_close(turned.flatten(), torch.tensor([3.0]).cos().new_tensor([-0.9899925, 0.14112]))


def test_sequences_may_have_their_own_positions():
    model = GPT(GPTConfig(layers=2, hidden=16, heads=2, sequence=6, rope=True))
    tokens, own = torch.randint(256, (2, 6)), torch.tensor([[0, 1, 2, 3, 4, 5], [9, 8, 7, 6, 5, 4]])
    both = model(tokens, own)
    for row in range(2):
        torch.testing.assert_close(both[row], model(tokens[row : row + 1], own[row])[0])
    assert not torch.allclose(both[1], model(tokens)[1])


def test_with_rotary_positions_there_are_no_learned_ones():
    assert "position.weight" not in GPT(GPTConfig(rope=True)).state_dict()
    assert isinstance(GPT(GPTConfig()).position, nn.Embedding)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="use 6 or 8"):
        angles(torch.arange(3), 7)
