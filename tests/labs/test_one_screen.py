"""Programs on pages: a whole step in one screen, milestones, and from experts to a design."""

import ast
import re
from pathlib import Path

import pytest
import shardlab
import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from autograder.authoring import notebooks
from tests.milestones import PAGE, ROWS, whole
from tests.named_on_pages import ROOT, is_exercise, path_is_there

# ---- Each page of docs/one-screen runs as printed, on real ranks, and trains like one process. -----------------------

PAGES = Path(__file__).parents[2] / "docs" / "one-screen"
HIDDEN, INNER, ROWS_ONE_SCREEN, STEPS = 5, (6, 10, 2, 4), 12, 3
MOST_LINES = {"hybrid": 82, "ring-attention": 68}  # three axes; a manual backward; the others have 65


def programs_of(page):
    return re.findall(r"^```python\n(.*?)^```", (PAGES / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)


def code_of(page):
    return programs_of(page)[-1]


def one_process_of(page):
    """Return the program that a page must agree with: its own if its model differs, otherwise the shared one."""
    *own, _ = programs_of(page)
    (code,) = own or programs_of("README")
    return code


def problem():
    """Return layers of several widths, and one batch per step, in float64."""
    torch.manual_seed(0)
    double = {"dtype": torch.float64}
    layers = [(torch.randn(HIDDEN, inner, **double) / 3, torch.randn(inner, HIDDEN, **double) / 3) for inner in INNER]
    batches = [
        (torch.randn(ROWS_ONE_SCREEN, HIDDEN, **double), torch.randn(ROWS_ONE_SCREEN, HIDDEN, **double))
        for _ in range(STEPS)
    ]
    return layers, batches


def train(code):
    """Return losses and weights after running the page's own program in this process."""
    names = {}
    exec(code, names)
    losses, weights = names["train"](*problem(), 0.1)
    return losses, [weight.detach() for weight in weights]


def all_weights(weights, rank):
    return weights


def slices(weights, rank):
    flats = [torch.cat([up.flatten(), down.flatten()]) for up, down in zip(weights[::2], weights[1::2], strict=True)]
    return [pad(flat, (0, -len(flat) % 3)).chunk(3)[rank] for flat in flats]


def columns_and_rows(weights, rank):
    return [weight.chunk(2, 1 - place % 2)[rank] for place, weight in enumerate(weights)]


def one_layer(weights, rank):
    return weights[2 * rank : 2 * rank + 2]


def parts_of_a_stage(weights, rank):
    return columns_and_rows(weights[4 * (rank // 4) : 4 * (rank // 4) + 4], rank % 2)


def router_and_expert(weights, rank):
    return [one for first in (0, 5) for one in (weights[first], *weights[first + 2 * rank + 1 : first + 2 * rank + 3])]


# page: number of ranks, which ranks have the losses, and which weights a rank has at the end
EXPECTED = {
    "ddp": (4, range(4), all_weights),
    "zero3": (3, range(3), slices),
    "tensor-parallel": (2, range(2), columns_and_rows),
    "sequence-parallel": (2, range(2), columns_and_rows),
    "pipeline-1f1b": (4, [3], one_layer),
    "expert-parallel": (2, range(2), router_and_expert),
    "hybrid": (8, range(4, 8), parts_of_a_stage),
}


def differences(page, code):
    """Return the largest difference of losses and weights from one process."""
    ranks, with_losses, part_of = EXPECTED[page]
    losses, weights = train(one_process_of(page))
    by_rank = shardlab.run(train, code, ranks=ranks, timeout=100, transport="gloo")
    mean = torch.tensor([by_rank[rank][0] for rank in with_losses]).mean(0)
    worst = 0.0
    for rank, (_, mine) in enumerate(by_rank):
        for found, expected in zip(mine, part_of(weights, rank), strict=True):
            assert found.shape == expected.shape
            worst = max(worst, (found - expected).abs().max().item())
    return (mean - torch.tensor(losses)).abs().max().item(), worst


@pytest.mark.parametrize("page", EXPECTED)
def test_a_page_trains_as_one_process_does(page):
    loss, weight = differences(page, code_of(page))
    assert loss < 1e-5 and weight < 1e-9


# page: a line, and a wrong replacement
SPOILED = {
    "ddp": (".view_as(weight) / num_ranks", ".view_as(weight)"),
    "zero3": ("mine.grad /= num_ranks", "pass"),
    "tensor-parallel": ("        return summed(gradient)", "        return gradient"),
    "sequence-parallel": ("(loss / num_ranks).backward()", "loss.backward()"),
    "pipeline-1f1b": ("/ MICROBATCHES  #", "#"),
    "expert-parallel": ("for weight in (router_HE, *expert):", "for weight in (router_HE,):"),
    "hybrid": ("summed(weight.grad, dp_group) / DP", "weight.grad"),
}


@pytest.mark.parametrize("page", SPOILED)
def test_a_wrong_line_would_be_noticed(page):
    code = code_of(page)
    assert code.count(SPOILED[page][0]) == 1
    _, weight = differences(page, code.replace(*SPOILED[page]))
    assert weight > 1e-4


def attention(code):
    """Return this rank's part of the output, and the gradients of unsplit q, k, v, in float64."""
    names = {}
    exec(code, names)
    generator = torch.Generator().manual_seed(0)
    qkv = [torch.randn(QKV, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    rank, num_ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if num_ranks == 1:
        o = scaled_dot_product_attention(*qkv, is_causal=True)
        weights = torch.arange(1.0, QKV[1] + 1)[:, None]
    else:
        o = names["attend"](*qkv)
        weights = (names["own_positions"](QKV[1], rank) + 1.0)[:, None]
    return o.detach(), weights, torch.autograd.grad((o * weights).sum(), qkv)


QKV = 2, 24, 5  # heads, tokens, width
ATTENTION = "ring-attention"


def attention_error(ranks, code):
    """Return the largest difference of output and gradients from one process."""
    ((whole, _, due),) = shardlab.run(attention, code, ranks=1, timeout=60, transport="gloo")
    by_rank = shardlab.run(attention, code, ranks=ranks, timeout=60, transport="gloo")
    results = [(o - whole[:, weights[:, 0].long() - 1]).abs().max().item() for o, weights, _ in by_rank]
    sums = [sum(parts) for parts in zip(*(gradients for *_, gradients in by_rank), strict=True)]
    return max(results), max((one - other).abs().max().item() for one, other in zip(sums, due, strict=True))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ring_attention_is_attention(ranks):
    result, gradient = attention_error(ranks, code_of(ATTENTION))
    assert result < 1e-9 and gradient < 1e-9


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("o_HSD * (lse_HS - total_HS).exp()[..., None] +", "o_HSD +"),
        ("(scores_of(q_HSD, k, step) - lse_HS[..., None]).exp()", "scores_of(q_HSD, k, step).softmax(-1).nan_to_num()"),
        ("k, v, dk, dv = travelling", "k, v, dk, dv = k_HSD, v_HSD, *travelling[2:]"),
        ("keys > queries[:, None]", "keys >= queries[:, None] + 1 + step"),
    ],
)
def test_a_wrong_line_of_ring_attention_would_be_noticed(line, wrong):
    code = code_of(ATTENTION)
    assert code.count(line) == 1
    assert max(attention_error(4, code.replace(line, wrong))) > 1e-2


def test_every_page_is_run():
    assert {path.stem for path in PAGES.glob("*.md")} == {"README", *EXPECTED, ATTENTION}


@pytest.mark.parametrize("page", [*EXPECTED, ATTENTION])
def test_a_page_is_one_screen_hides_nothing_and_explains_each_step(page):
    text, code = (PAGES / f"{page}.md").read_text(), code_of(page)
    assert len(code.splitlines()) <= MOST_LINES.get(page, 65)
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)) == {"torch"}
    steps = re.findall(r"# (\d)\. ", code)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert re.findall(r"^\| (\d) \| \[", text, re.MULTILINE) == steps
    assert "**What this page leaves out.**" in text


# ---- docs/milestones.md matches its recomputed rows, and every row points to something that exists. ------------------

NUMBERED_WEEKS = {path.name[:6] for path in ROOT.glob("solutions/week*")} - {"week00"}
LATER = {"week15", "week16"}  # their rows are added with these weeks


def test_the_page_is_what_its_rows_compute():
    assert PAGE.read_text(encoding="utf-8") == whole(), "run `python -m tests.milestones`"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.said[:40])
def test_a_row_leads_to_what_is_there(row):
    assert row.where
    for one in row.where:
        assert is_exercise(one) if one.startswith("week") else path_is_there(one, ROOT)


def test_every_week_has_a_row():
    named = {one.split(".")[0] for row in ROWS for one in row.where if one.startswith("week")}
    assert named | LATER == NUMBERED_WEEKS | LATER


# ---- Weeks 11 to 16 start with at most five imports, none from deep inside a package, and can be read in an evening. -

WEEKS = [week for week in notebooks.weeks() if "week11" <= week < "week17"]
MOST_IMPORTS, MOST_WORDS, DEEPEST = 5, 3500, 2


@pytest.mark.parametrize("week", WEEKS)
def test_a_page_opens_briefly(week):
    cells = [cell for cell in notebooks.read_source(week).cells if cell.cell_type == "code"]
    trees = [node for cell in cells for node in ast.parse(cell.source).body]
    imports = [node for node in trees if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = [node for node in imports if not ast.unparse(node).startswith("from mine")]  # code that the reader wrote
    modules = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    ours = [module for module in modules if module.startswith("shardlab")]
    assert len(imports) <= MOST_IMPORTS and all(module.count(".") < DEEPEST for module in ours)


@pytest.mark.parametrize("week", WEEKS)
def test_a_page_is_read_in_an_evening(week):
    cells = [cell for cell in notebooks.read_source(week).cells if cell.cell_type == "markdown"]
    assert sum(len(cell.source.split()) for cell in cells if "nbgrader" not in cell.metadata) <= MOST_WORDS
