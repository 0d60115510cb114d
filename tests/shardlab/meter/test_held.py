"""Bytes held: every storage once, the local part of a sharded one, gradients and optimizer state only when there."""

import torch
from shardlab import meter
from torch import nn

WIDTH = 8
LINEAR = 4 * (WIDTH * WIDTH + WIDTH)  # bytes of weight and bias


def step(model, optimizer, dtype=torch.float32):
    model(torch.ones(2, WIDTH, dtype=dtype)).sum().backward()
    optimizer.step()


def test_parameters_then_gradients_then_optimizer_state():
    model = nn.Linear(WIDTH, WIDTH)
    adam = torch.optim.Adam(model.parameters())
    assert meter.bytes_held(model, adam) == meter.Held(LINEAR, 0, 0)
    step(model, adam)
    held = meter.bytes_held(model, adam)
    assert (held.parameters, held.gradients) == (LINEAR, LINEAR)
    assert held.optimizer_state == 2 * LINEAR + 2 * 4  # two moments, and a step count for each of two parameters
    assert held.total == 4 * LINEAR + 8
    adam.zero_grad()
    assert meter.bytes_held(model).gradients == 0


def test_sgd_without_momentum_holds_nothing():
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters())
    step(model, optimizer)
    assert meter.bytes_held(model, optimizer).optimizer_state == 0


def test_tied_weights_count_once():
    embedding, head = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100, bias=False)
    untied = meter.bytes_held(nn.ModuleList([embedding, head]))
    head.weight = embedding.weight
    tied = meter.bytes_held(nn.ModuleList([embedding, head]))
    assert untied.parameters == 2 * tied.parameters == 2 * 4 * 100 * WIDTH


def test_views_of_one_buffer_count_once():
    flat = torch.zeros(2 * WIDTH)
    halves = nn.ParameterList([nn.Parameter(half) for half in flat.chunk(2)])
    assert meter.bytes_held(halves).parameters == 4 * 2 * WIDTH


def test_a_smaller_dtype_holds_fewer_bytes():
    model = nn.Linear(WIDTH, WIDTH).bfloat16()
    step(model, torch.optim.SGD(model.parameters()), torch.bfloat16)
    assert meter.bytes_held(model) == meter.Held(LINEAR // 2, LINEAR // 2, 0)


def test_a_model_on_the_meta_device_holds_nothing():
    with torch.device("meta"):
        model = nn.Linear(WIDTH, WIDTH)
    assert meter.bytes_held(model).total == 0
