"""Parts of the model, and recomputation."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from shardlab.costs.models.flops import (
    attention_core_flops,
    forward_flops_per_token,
    hardware_flops_per_token,
    output_flops,
)
from shardlab.costs.models.model import Transformer
from shardlab.meter.held import saved, storage_bytes
from shardlab.model import adam
from shardlab.model.attention import angles, rotated
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss
from shardlab.model.recomputation import recompute, recomputed
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

# ---- Parts of a model: Adam as data, rotary positions. ---------------------------------------------------------------

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


# ---- Recomputed modules give the same gradients, keep only their inputs, and cost the derived FLOPs. -----------------

CONFIG = GPTConfig(layers=4, hidden=32, heads=4, sequence=16, vocabulary=24, dropout=0.2, flash=False)
CHOICES = {
    "selective": partial(recompute, pattern="blocks.*.attention.core"),
    "full": partial(recompute, pattern="blocks.*"),
    "every second": partial(recompute, pattern="blocks.*", every=2),
    "a module": partial(recompute, pattern="blocks.*.attention"),
    "one layer": partial(recompute, pattern="blocks.2"),
}
TOKENS = torch.randint(24, (2, 2, 16), generator=torch.Generator().manual_seed(1))


def new_model():
    torch.manual_seed(0)
    return GPT(CONFIG)


def gradients(model):
    torch.manual_seed(5)
    loss = next_token_loss(model(TOKENS[0]), TOKENS[1])
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in model.parameters()], torch.rand(3)


@pytest.mark.parametrize("choice", CHOICES)
def test_gradients_and_later_random_numbers_are_those_without(choice):
    loss, due, later = gradients(new_model())
    again, got, later_again = gradients(CHOICES[choice](new_model()))
    assert torch.equal(loss, again) and torch.equal(later, later_again)
    assert all(map(torch.equal, due, got))


def test_masks_that_are_drawn_again_make_other_gradients():
    """A known mistake: the loss is right, but the gradients belong to another network."""
    loss, due, _ = gradients(new_model())
    again, got, _ = gradients(recompute(new_model(), "blocks.*", restores_random=False))
    assert torch.equal(loss, again) and not any(map(torch.equal, due[2:5], got[2:5]))


def test_names_of_parameters_and_modules_stay():
    model = new_model()
    names = list(model.state_dict())
    assert list(recompute(model, "blocks.*").state_dict()) == names
    twin = deepcopy(model)
    gradients(twin)
    assert all(parameter.grad is None for parameter in model.parameters())  # the copy recomputes itself


def kept(model):
    with saved(model.parameters()) as found:
        next_token_loss(model(TOKENS[0]), TOKENS[1])
    return found.num_bytes


def test_less_is_kept_the_more_is_recomputed():
    none, selective, second, full = (
        kept(choice(new_model()))
        for choice in (lambda model: model, *map(CHOICES.get, ("selective", "every second", "full")))
    )
    assert full < second < none and full < selective < none
    assert none - second == second - full == (none - full) / 2  # two of four layers


def test_parameters_get_gradients_where_no_input_needs_one():
    layer = nn.Linear(3, 3)
    recomputed(layer, torch.ones(2, 3), generators=[]).sum().backward()
    assert layer.weight.grad is not None
    with torch.no_grad():
        assert not recomputed(layer, torch.ones(2, 3), generators=[]).requires_grad
    recomputed(layer.requires_grad_(False), torch.ones(2, 3), generators=[]).sum().backward()  # nothing to do


def flops(model):
    with FlopCounterMode(display=False) as counter:
        next_token_loss(model(TOKENS[0]), TOKENS[1]).backward()
    return counter.get_total_flops()


def test_what_is_done_twice_costs_the_flops_that_are_derived():
    """Selective: 4sh per token and layer, s/18h of the layer's 72h^2. Full: one forward of the layers."""
    model = Transformer("small", 4, 32, 4, 4, 128, 24, 16)
    tokens = TOKENS[0].numel()
    counted = {name: flops(CHOICES[name](new_model())) for name in ("selective", "full", "every second")}
    once = flops(new_model())
    for name in ("none", "selective", "full"):
        assert counted.get(name, once) == tokens * hardware_flops_per_token(model, name)
    assert counted["selective"] - once == tokens * 4 * attention_core_flops(model) == tokens * 4 * 4 * 16 * 32
    layers = forward_flops_per_token(model) - output_flops(model)
    assert counted["every second"] - once == tokens * layers / 2
    assert attention_core_flops(model) / (72 * 32**2) == pytest.approx(16 / (18 * 32))


@pytest.mark.parametrize(("pattern", "every", "sentence"), [("blocks.*", 0, "use 1"), ("layers.*", 1, "use paths")])
def test_what_chooses_nothing_is_refused(pattern, every, sentence):
    with pytest.raises(ValueError, match=sentence):
        recompute(new_model(), pattern, every=every)
