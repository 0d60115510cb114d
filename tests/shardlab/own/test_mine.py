"""`mine`, and its uses."""

import ast
import importlib
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from own_course import TIMES_TWO, USES
from shardlab.figures import draw_own_trainer, new_axes
from shardlab.own import blocks, finder, loader, shelf
from shardlab.own.blocks import Block, Clash, module_source
from shardlab.own.pieces import GIVEN, PIECES, piece_of, pieces
from shardlab.own.uses import USES as USES_of_uses
from shardlab.own.uses import rows
from shardlab.study import bundle
from shardlab.study.folder import begin

# ---- `mine`: blocks become modules, the course's functions fill the gaps, and no file edited by hand is lost. --------

SCATTER, REDUCE = "week01.ring-reduce-scatter", "week01.ring-all-reduce"


def scatter_block(factor=3):
    return Block((), (("ring_reduce_scatter", TIMES_TWO.replace("2", str(factor))),))


def keep(folder, exercise, block):
    return shelf.keep(folder, piece_of(exercise), block)


def collectives():
    finder.forget()
    return importlib.import_module("mine.collectives")


def test_the_course_stands_in_and_says_so_once(folder, capsys):
    assert collectives().ring_all_reduce([1], group=None) == [2]
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "until you pass" in said and SCATTER in said
    importlib.import_module("mine.collectives")
    assert not capsys.readouterr().out


def test_the_learners_function_is_taken_also_by_the_courses(folder, capsys):
    keep(folder, SCATTER, scatter_block(3))
    module = collectives()
    assert module.ring_reduce_scatter([1], group=None) == [3]
    assert module.__origin__["ring_reduce_scatter"] == "yours"
    assert SCATTER not in capsys.readouterr().out


def test_a_learners_function_may_call_one_that_only_the_course_has(folder):
    parts = (
        ("ring_all_reduce", "def ring_all_reduce(tensor, *, group):\n    return ring_reduce_scatter(tensor, group=0)"),
    )
    keep(folder, REDUCE, Block((), parts))
    assert collectives().ring_all_reduce([5], group=None) == [10]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def ring_reduce_scatter(chunks, *, group) return", "is not Python"),
        ("import no_such_module", "cannot be imported (ModuleNotFoundError"),
        ("def double(): pass\ndef double(): pass\n", "defines double twice"),
        ("1 / 0", "ZeroDivisionError"),
        ("\udcff", "is not Python"),
    ],
)
def test_a_module_that_does_not_work_is_replaced_by_the_courses(folder, capsys, text, words):
    keep(folder, SCATTER, scatter_block())
    (folder.path / "mine" / "collectives.py").write_bytes(text.encode("utf-8", errors="surrogateescape"))
    assert collectives().ring_reduce_scatter([1], group=None) == [2]
    assert words in (said := capsys.readouterr().out) or not text.isprintable()
    assert "replaced by the course's" in said


def test_a_function_with_the_parameters_of_an_older_course_is_put_back(folder, capsys):
    keep(folder, SCATTER, scatter_block())
    path = folder.path / "mine" / "collectives.py"
    path.write_text(path.read_text().replace("(aaaaaa)", "(0f0f0f)"))
    assert collectives().ring_reduce_scatter([1], group=None) == [2]
    assert SCATTER in capsys.readouterr().out


def test_without_the_courses_answers_a_missing_name_says_how_to_get_it(folder):
    (folder.course / "own.json").unlink()
    module = collectives()
    with pytest.raises(AttributeError, match=r"week01\.ring-all-reduce adds it once its check passes"):
        _ = module.ring_all_reduce


def test_a_given_module_and_an_unknown_one(folder):
    assert importlib.import_module("mine.adam").new_state
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mine.no_such_module")


def test_a_sandbox_has_what_it_is_served_and_nothing_else(folder):
    keep(folder, SCATTER, scatter_block())
    finder.serve({"zero": "def mean_slice():\n    return 1\n"})
    assert importlib.import_module("mine.zero").mean_slice() == 1
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mine.collectives")


def test_two_answers_with_different_helpers_of_a_name_are_refused(folder):
    keep(folder, SCATTER, Block((), (("half", "def half(x):\n    return x / 2"), *scatter_block().parts)))
    before = (folder.path / "mine" / "collectives.py").read_text()
    with pytest.raises(Clash, match="`half` differently"):
        keep(folder, REDUCE, Block((), (("half", "def half(x):\n    return x // 2"),)))
    assert (folder.path / "mine" / "collectives.py").read_text() == before


def test_the_same_helper_appears_once_and_imports_are_merged():
    half = ("half", "def half(x):\n    return x / 2")
    found = {
        SCATTER: Block(("from math import pi",), (half, *scatter_block().parts)),
        REDUCE: Block(("from math import e",), (half,)),
    }
    text = module_source("collectives", found)
    assert text.count("def half") == 1 and "from math import e, pi" in text
    assert ast.parse(text)


def test_blocks_survive_packing_and_a_broken_pack_is_refused():
    found = {
        one.exercise: Block(("import torch",), ((one.names[0], f"def {one.names[0]}(): pass"),)) for one in pieces()
    }
    assert blocks.unpacked(blocks.packed(found)) == found
    for text in ("", "{}", '{"format": 1}', '{"format": 2, "blocks": ""}', '{"format": 1, "blocks": "zz"}', "[1]"):
        with pytest.raises(ValueError):
            blocks.unpacked(text)


def test_no_name_is_in_two_modules_pieces_and_no_exercise_in_two():
    for names in PIECES.values():
        flat = [name for each in names.values() for name in each]
        assert len(set(flat)) == len(flat)
    every = [one.exercise for one in pieces()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("seed", range(20))
def test_no_module_edited_by_hand_is_lost(folder, seed, tmp_path):
    """After repeated checks, edits, exports and imports, every edited text still exists in some file."""
    rng, edited, path = Random(seed), set(), folder.path / "mine" / "collectives.py"
    for turn in range(20):
        what = rng.choice(["check", "check", "edit", "edit", "carried"])
        if what == "check" and rng.random() < 0.5:
            keep(folder, SCATTER, scatter_block(rng.randint(3, 5)))
        elif what == "check":
            keep(folder, REDUCE, Block((), (("ring_all_reduce", f"{USES}  # {turn}"),)))
        elif what == "edit" and path.is_file():
            edited.add(text := f"{path.read_text()}\n# by hand {turn}\n")
            path.write_text(text)
        elif what == "carried":
            bundle.export(folder, tmp_path / f"{turn}.zip")
            bundle.bring(folder, tmp_path / f"{turn}.zip", replace=True)
            folder, _ = begin(folder.path, folder.course)
    kept = [one.read_text() for one in (*folder.path.glob("mine/*.py"), *folder.path.glob("attempts/mine/*.py"))]
    assert all(any(other.startswith(text) for other in kept) for text in edited)


def test_the_names_of_a_module_are_those_of_its_exercises(folder):
    assert loader.names_of("zero")[:2] == ["flatten_and_pad", "unflatten"]


# ---- The map of the trainer matches the imports on the pages. --------------------------------------------------------

ROOT = Path(__file__).parents[3]
ASSEMBLED = 15


def modules_of_mine(path: Path) -> set[str]:
    """The modules of `mine` that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "mine":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("mine."):
            found.add(str(node.module).partition(".")[2])
    return found


def test_the_map_is_what_the_pages_import():
    found = defaultdict(set)
    for page in ROOT.glob("solutions/week*/week*.py"):
        for module in modules_of_mine(page):
            found[module].add(int(page.stem[4:6]))
    for given in (ROOT / "labs" / "shardlab" / "own" / "given").glob("*.py"):
        for module in modules_of_mine(given):
            found[module].add(ASSEMBLED)
    assert found.keys() <= {*PIECES, *GIVEN}
    assert {name: weeks for name, weeks in USES_of_uses.items() if weeks} == {
        name: tuple(sorted(found[name])) for name in PIECES if name in found
    }


def test_every_module_is_drawn_with_its_weeks():
    _, ax = new_axes()
    sentence = draw_own_trainer(ax, rows(), title="A title")
    texts = [text.get_text() for text in ax.texts]
    assert all(name in texts for name in PIECES)
    assert "zero (6 functions) is written in week 3 and used in weeks 4, 15" in sentence


@pytest.mark.parametrize(
    ("modules", "words"), [({}, "at least one"), ({"a": (30, 1, ())}, "weeks from 0"), ({"a": (3, 1, (2,))}, "before")]
)
def test_a_map_that_cannot_be_is_refused(modules, words):
    _, ax = new_axes()
    with pytest.raises(ValueError, match=words):
        draw_own_trainer(ax, modules, title="A title")
