"""Week 15's trainer, built from the course's answers: 8 torchrun ranks match one process, and bytes match formulas."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from IPython.core.inputtransformer2 import TransformerManager
from shardlab.commands.trainer_report import code_lines
from shardlab.own import step_bytes
from shardlab.own.pieces import GIVEN

from autograder.authoring.course import ROOT
from autograder.reading import stand_ins
from autograder.weeks.week15_capstone_build import _one_process

pytestmark = pytest.mark.timeout(900)  # eight ranks on few cores
SAME = 1e-5
STEPS = 10
MODEL = {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 64, "batch": 16, "steps": STEPS}
RECIPES: list[dict[str, Any]] = [
    {"dp": 2, "pp": 2, "tp": 2},
    {"dp": 2, "cp": 2, "tp": 2},
    {"dp": 2, "pp": 2, "ep": 2, "experts": 4},
    {"dp": 8},
    *({"dp": 8, "zero": zero} for zero in (1, 2, 3)),
    {"dp": 2, "pp": 2, "tp": 2, "zero": 1, "schedule": "zb-h1", "steps": 2},
    {"dp": 4, "pp": 2, "schedule": "interleaved", "steps": 2},
    {"ep": 2, "cp": 2, "pp": 2, "experts": 4, "schedule": "dualpipe-v", "microbatches": 4, "steps": 2},
    {"tp": 2, "cp": 2, "ep": 2, "experts": 4, "zero": 1, "steps": 2},
    {"cp": 2, "dp": 4, "zero": 3, "steps": 2},
]
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Run:
    """One rank's results for a recipe."""

    losses: list[float]
    weights: Weights
    places: dict[str, int]
    sent: list[tuple[list[int], float]]
    seconds: float


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory) -> dict[int, list[Run]]:
    """{number: the results of 8 ranks} of the recipes whose tests are selected."""
    called = test_eight_ranks_equal_one_process_and_send_what_the_formulas_say.__name__
    numbers = [item.callspec.params["number"] for item in request.session.items if item.originalname == called]
    folder = tmp_path_factory.mktemp("own")
    stand_ins.write_source(folder)
    (folder / "recipes.json").write_text(json.dumps([MODEL | RECIPES[number] for number in numbers]))
    ranks = Path(__file__).with_name("ranks.py")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "8"]
    subprocess.run(
        [sys.executable, "-m", *command, str(ranks), str(folder / "recipes.json"), str(folder)],
        check=True,
        timeout=500,
        cwd=folder,
    )
    by_rank = [[Run(*one) for one in torch.load(folder / f"rank{rank}.pt")] for rank in range(8)]
    return {number: list(ranks) for number, *ranks in zip(numbers, *by_rank, strict=True)}


def numbers_of(recipe: dict[str, Any], step: int) -> list[int]:
    """Numbers of the sequences in a step's batch, in the order of the page's solution."""
    found = []
    for number in range(step * recipe["batch"], (step + 1) * recipe["batch"]):
        epoch, at = divmod(number, 64)
        order = list(range(64))
        Random(f"{recipe['seed']}/{epoch}").shuffle(order)
        found.append(order[at])
    return found


def one_process(recipe: dict[str, Any], folder: Path) -> tuple[list[float], _one_process.OneProcess]:
    """Losses and final state of one process. The given module, which needs no ranks, draws the weights."""
    drawn = subprocess.run(
        [sys.executable, "-c", DRAW, json.dumps(recipe), str(folder / "drawn.pt")],
        cwd=stand_ins.write_source(folder).parent,
        check=False,
        capture_output=True,
        text=True,
    )
    assert drawn.returncode == 0, drawn.stderr
    weights, text = torch.load(folder / "drawn.pt")
    whole = _one_process.OneProcess(recipe, weights, text)
    return [whole.step(numbers_of(recipe, step)) for step in range(recipe["steps"])], whole


DRAW = """
import json, sys, torch
from types import SimpleNamespace
from mine import model
recipe = SimpleNamespace(**json.loads(sys.argv[1]))
torch.save((model.new_weights(recipe), model.new_text(recipe)), sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(RECIPES)), ids=lambda number: str(RECIPES[number]))
def test_eight_ranks_equal_one_process_and_send_what_the_formulas_say(number, runs, tmp_path):
    recipe = _one_process.DEFAULTS | MODEL | RECIPES[number]
    losses, whole = one_process(recipe, tmp_path)
    for rank, run in enumerate(runs[number]):
        assert run.losses == pytest.approx(losses, abs=SAME)
        assert run.places == places_of(recipe, rank)
        for name, weight in run.weights.items():
            part = _one_process.own_part(name, whole.weights[name], run.places, recipe)
            assert (weight - part).abs().max() <= SAME, name
        expected = step_bytes.sent_bytes(recipe, run.places, run.weights, whole.chosen)
        sent = sent_by_axes(run, recipe)
        if recipe["schedule"] in ("zb-h1", "dualpipe-v"):  # W repeats the backward's messages within a stage
            expected, sent = ({axes: one[axes] for axes in one if "pp" in axes} for one in (expected, sent))
        assert sent == pytest.approx(expected), rank
    names = {name for run in runs[number] for name in run.weights}
    assert names == whole.weights.keys()
    print(recipe["zero"], RECIPES[number], max(run.seconds for run in runs[number]))


def places_of(recipe: dict[str, Any], rank: int) -> dict[str, int]:
    places = {}
    for axis in step_bytes.AXES:
        rank, places[axis] = divmod(rank, recipe[axis])
    return places


def sent_by_axes(run: Run, recipe: dict[str, Any]) -> dict[frozenset[str], float]:
    """Bytes by the axes along which the members of a group differ."""
    found: dict[frozenset[str], float] = {}
    for members, sent_bytes in run.sent:
        places = [places_of(recipe, rank) for rank in members]
        axes = step_bytes.axes_between(places)
        if sent_bytes:
            found[axes] = found.get(axes, 0) + sent_bytes
    return found


REFUSED = {
    '{"tp": 2}': "the product tp · cp · ep · dp · pp must be 1, the number of ranks",
    '{"tpp": 2}': "no key 'tpp'",
    '{"tp": "2"}': "must have the type of its default, 1",
    '{"pp": 2, "zero": 2}': "ZeRO-2 and ZeRO-3 need pp = tp = 1 and no experts",
    '{"tp": 2, "zero": 3}': "ZeRO-2 and ZeRO-3 need pp = tp = 1 and no experts",
    '{"tp": 8}': "heads = 4 must be a multiple of 8",
    '{"dp": 2, "batch": 6}': "batch = 6 must be a multiple of 4",
    '{"pp": 0}': "must be at least 1",
    '{"schedule": "1b1f"}': "schedule must be one of",
    '{"schedule": "interleaved"}': "interleaved needs pp = 2 or more",
    '{"ep": 2}': "experts must be at least 2, or 0 with ep = 1",
}
KEYS = ("tp", "cp", "ep", "dp", "pp", "layers", "hidden", "heads", "sequence", "vocabulary", "experts", "batch")
KEYS += ("microbatches", "schedule", "zero", "steps", "seed", "lr", "optimizer", "backend")
REFUSED |= {json.dumps({key: value}): f"{key} " for key in KEYS for value in (-1, "x", None, [1], True)}
REFUSED |= {json.dumps({key: 0}): f"{key} must be at least 1" for key in KEYS[:10]}
REFUSE = """
import json, sys
from mine import program
for given in json.loads(sys.argv[1]):
    try:
        print("trained", program.recipe_of(json.loads(given), 1))
    except ValueError as error:
        print(str(error).replace("\\n", " "))
"""


def test_wrong_recipes_are_refused_with_a_sentence(tmp_path):
    command = [sys.executable, "-c", REFUSE, json.dumps(list(REFUSED))]
    printed = subprocess.run(
        command, cwd=stand_ins.write_source(tmp_path).parent, check=True, capture_output=True, text=True
    ).stdout
    for line, sentence in zip(printed.splitlines(), REFUSED.values(), strict=True):
        assert sentence in line


def test_the_whole_of_mine_has_at_most_900_lines_and_200_given_ones():
    sources = stand_ins.sources_of(stand_ins.from_solutions())
    assert sum(map(code_lines, sources.values())) <= 900
    on_pages = {ast.dump(one) for source in cells_of_students_pages() for one in ast.parse(source).body}
    given = sum(code_lines(sources[name]) for name in GIVEN)
    for source in (source for name, source in sources.items() if name not in GIVEN):
        for one in ast.parse(source).body:
            if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and ast.dump(one) in on_pages:
                given += code_lines(ast.unparse(one))
    assert given <= 200


def cells_of_students_pages() -> Iterator[str]:
    """The code cells of the pages that learners get."""
    for path in sorted((ROOT / "course").glob("week*/week*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "code":
                yield TransformerManager().transform_cell("".join(cell["source"]))
