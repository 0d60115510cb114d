"""A small model that is hard to shard, and its training in one process, whose result every rank must match."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, STEPS = 11, 6, 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 7)  # odd on purpose
        self.down = nn.Linear(7, WIDTH, bias=False)

    def forward(self, x_BH: Tensor) -> Tensor:
        return x_BH + self.down(functional.gelu(self.up(self.norm(x_BH))))


class TinyModel(nn.Module):
    """Tied embedding and head, three blocks, one frozen bias, and one unused parameter."""

    def __init__(self, *, with_unused: bool = False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.blocks[1].up.bias.requires_grad_(False)
        if with_unused:
            self.unused = nn.Parameter(torch.ones(5))

    def forward(self, tokens_B: Tensor) -> Tensor:
        x_BH = self.embed(tokens_B)
        for block in self.blocks:
            x_BH = block(x_BH)
        return self.head(x_BH)


def new_model(seed: int = 0, **options) -> TinyModel:
    torch.manual_seed(seed)
    return TinyModel(**options).double()


def batch(step: int, num_ranks: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets of all ranks together, the same number for each rank."""
    generator = torch.Generator().manual_seed(100 + step)
    tokens = torch.randint(VOCABULARY, (2, 3 * num_ranks), generator=generator)
    return tokens[0], tokens[1]


def loss_of(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(model(tokens), targets)


def trained_alone(num_ranks: int, optimizer_class=torch.optim.AdamW, *, max_norm: float | None = None, **options):
    """Weights after 20 steps in one process on the batches of all ranks, and the losses."""
    model = new_model()
    optimizer = optimizer_class(model.parameters(), **options)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *batch(step, num_ranks))
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss.item())
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, losses


def own_part(tensor: Tensor, rank: int, num_ranks: int) -> Tensor:
    """A rank's part of the batch."""
    return tensor.chunk(num_ranks)[rank]


def largest_difference(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    assert first.keys() == second.keys()
    return max((first[name] - second[name]).abs().max().item() for name in first)
