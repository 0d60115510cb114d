"""Steps that use other units than the first step, on all ranks: the weights match one process."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.zero import Zero3
from torch import Tensor, nn

WIDTH, RANKS = 6, 2
EVALUATED, TRAINED = [1, 2], [0, 1, 0, 2, 2, 0]  # branches: the first step uses only branch 0


class Branches(nn.Module):
    """One of three alternative layers, between two layers that every step uses."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x_BH: Tensor, branch: int) -> Tensor:
        return self.last(torch.tanh(self.branches[branch](torch.tanh(self.first(x_BH)))))


def new_model():
    torch.manual_seed(3)
    return Branches().double()


def batch(step):
    return torch.randn(2 * RANKS, WIDTH, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


def trained_alone():
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, branch in enumerate(TRAINED):
        optimizer.zero_grad()
        model(batch(step), branch).square().mean().backward()
        optimizer.step()
    return model(batch(9), 1).detach(), {name: one.detach() for name, one in model.named_parameters()}


def trained(prefetch, reshard_after_forward):
    model = new_model()
    units = [model.first, *model.branches, model.last]
    options = {"prefetch": prefetch, "reshard_after_forward": reshard_after_forward}
    zero = Zero3(model, torch.optim.SGD, units=units, lr=0.1, **options)
    rank = dist.get_rank()
    for step, branch in enumerate(TRAINED):
        zero.zero_grad()
        model(batch(step).chunk(RANKS)[rank], branch).square().mean().backward()
        zero.step()
        with torch.no_grad():
            for other in EVALUATED:
                model(batch(step), other)
    with torch.no_grad():
        output = model(batch(9), 1)
    return output, zero.full_parameters()


@pytest.mark.parametrize("reshard_after_forward", [True, False])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_another_branch_is_evaluated_and_trained(prefetch, reshard_after_forward):
    due, weights = trained_alone()
    for output, mine in shardlab.run(trained, prefetch, reshard_after_forward, ranks=RANKS, timeout=60):
        torch.testing.assert_close(output, due, rtol=0, atol=1e-12)
        for name, weight in weights.items():
            torch.testing.assert_close(mine[name], weight, rtol=0, atol=1e-12)
