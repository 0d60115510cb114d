"""Rewrite correct solutions in the styles of honest students: one notebook per exercise and habit."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.authoring import notebooks
from autograder.reading.answers import Cell
from autograder.weeks import find

TABLES = {
    "for": "T = []\nfor i in range(3):\n    T.append(i)",
    "call": "T = []\ndef fill(t): t.extend([0, 1, 2])\nfill(T)",
    "nested": "T = []\ndef fill():\n    T.extend([0, 1, 2])\ndef both(): fill()\nboth()",
    "alias": "T = [[]]\nrow = T[0]\nrow.extend([0, 1, 2])\nT += row\nT.pop(0)",
    "method": "T = []\nadd = T.append\nadd(0), add(1)\nadd(2)",
    "partial": "from functools import partial\nT = []\nadd = partial(list.extend, T)\nadd([0, 1, 2])",
    "if": "T = []\nif not T:\n    T.extend([0, 1, 2])\nelse:\n    T.extend([5])",
    "while": "T = []\nwhile len(T) < 3:\n    T.append(len(T))",
    "with": "from contextlib import suppress\nT = []\nwith suppress(OSError):\n    T.extend([0, 1, 2])",
    "try": "T = []\ntry:\n    T.extend([0, 1, 2])\n    1 / 0\nexcept ZeroDivisionError as error:\n    last = error",
    "global": "T = None\ndef init():\n    global T\n    T = [0, 1, 2]\ninit()",
    "setattr": "class C: pass\nsetattr(C, 't', [0, 1, 2])\nT = C.t",
    "slice": "T = [9] * 3\nT[:] = range(3)",
    "augmented": "T = [0]\nT += [1, 2]",
    "del": "T = [0, 7, 1, 2]\ndel T[1]",
    "walrus": "print(T := [0, 1, 2])",
    "match": "match [0, [0, 1, 2]]:\n    case [_, [*T]]: pass",
    "decorator": "T = []\ndef note(f):\n    T.append(f())\n    return f\n@note\ndef a(): return 0\n"
    "@note\ndef b(): return 1\n@note\ndef c(): return 2",
    "globals": "globals()['T'] = [0, 1, 2]",
    "exec": "exec('T = [0, 1, 2]')",
    "comprehension": "T = []\n[T.append(i) for i in range(3)]",
    "main guard": "if __name__ == '__main__':\n    T = [0, 1, 2]",
    "shell": "files = !ls\n?print\nprint?\n%matplotlib inline\nT = [0, 1, 2]",
    "timed": "T = []\n%time T.extend([0, 1, 2])",
    "timed cell": "%%time\nT = []\nfor i in range(3):\n    T.append(i)",
    "timed value": "T = %time [0, 1, 2]",
    "timeit": "x = %timeit -o -n 1 -r 1 f()\nT = [0, 1, 2]",
    "await": "async def wait(): return [0, 1, 2]\nT = await wait()",
    "iterator": "numbers = iter(range(4))\nT = [next(numbers)]\nT += [next(numbers) for _ in range(2)]",
    "swap": "A, T = [0, 1, 2], [3]\nA, T = T, A",
    "zip": "T = [9, 9, 9]\nfor place, T[place] in enumerate(range(3)): pass",
    "future": "from __future__ import annotations\ndef f(x: NoSuchName): return x\nT = f([0, 1, 2])",
    "dataclass": "from dataclasses import *\n@dataclass\nclass Box:\n    t: list = field(default_factory=list)"
    "\nbox = Box()\nbox.t += [0, 1, 2]\nT = box.t",
    "pickled": "import pickle\nclass Box:\n    t = [0, 1, 2]\nT = pickle.loads(pickle.dumps(Box())).t",
    "unicode": "größe = 3\nT = list(range(größe))",
    "sorted": "import random\nT = [2, 1, 0]\nT.sort()",
    "star": "from itertools import *\nT = list(islice(count(), 3))",
    "setdefault": "D = {}\nD.setdefault('t', []).extend([0, 1, 2])\nT = D['t']",
    "instance": "T = []\nclass Filler:\n    def __init__(self): T.extend([0, 1, 2])\nFiller()",
    "chained": "T = U = []\nU.append(0)\nU.extend([1, 2])",
    "after an error": "T = [0]\nprint(undefined)\nT.append(1)\nT.append(2)",
    "one line": "T = []; T.append(0); T.append(1); T.append(2)",
    "path": 'PATH = r"C:\\Users\\new"; OTHER = "C:\\data"\nT = [0, 1, 2]',
    "plot": "import matplotlib.pyplot as plt\nT = [0, 1, 2]\ndef show(): plt.plot(T)",
    "annotated": "T: list[int] = [0]\nT: list[int] = T + [1, 2]",
    "property": "class C:\n    @property\n    def t(self): return [0, 1, 2]\nT = C().t",
    "cached": "from functools import cache\n@cache\ndef table(): return [0, 1, 2]\nT = table()",
    "generator": "def numbers():\n    yield from range(3)\nT = [*numbers()]",
    "interactive": "get_ipython().run_line_magic('matplotlib', 'inline')\ndisplay(3)\nT = [0, 1, 2]",
    "prompt": ">>> T = [0]\n>>> T += [1, 2]",
}

HANDED_ON = """
{name}_before = {name}
def {name}(*args, **kwargs):
    assert T == [0, 1, 2], T
    return {name}_before(*args, **kwargs)
"""


@dataclass
class Book:
    """The released notebook of an exercise's week, ready to be changed, with the exercise's solution."""

    exercise: str
    notebook: NotebookNode
    solution: str
    names: list[str]  # of the functions that the exercise asks for

    @property
    def own(self) -> str:
        """The id of the exercise's cell; its check has the same id plus -check."""
        return notebooks.grade_id(self.exercise)

    def place(self, name: str) -> int:
        """Return the position of the cell with this id."""
        return next(place for place, cell in enumerate(self.notebook.cells) if cell.id == name)

    def cell(self, name: str = "") -> NotebookNode:
        """Return the cell with this id, or the exercise's cell."""
        return self.notebook.cells[self.place(name or self.own)]

    def add(self, source: str, *, below: bool = False, at: str = "") -> None:
        """Insert a new code cell above or below the cell with this id."""
        self.notebook.cells.insert(self.place(at or self.own) + below, new_code_cell(source))

    def answer(self, source: str | None = None) -> None:
        """Write the solution, or another text, into the exercise's cell."""
        self.cell().source = self.solution if source is None else source


def book_of(exercise: str) -> Book:
    """Return a fresh copy of the released notebook, in which all other exercises are answered."""
    own = notebooks.grade_id(exercise)
    notebook, solutions = deepcopy(_page(exercise.partition(".")[0]))
    released = next(cell.source for cell in notebook.cells if cell.id == own)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.id != own:
            cell.source = solutions[cell.id]
    asked = Cell(exercise, "", own, released=released).asked
    functions = [node.name for node in ast.parse(solutions[own]).body if isinstance(node, ast.FunctionDef)]
    return Book(exercise, notebook, solutions[own], [name for name in functions if name in asked])


@cache
def _page(week: str) -> tuple[NotebookNode, dict[str, str]]:
    return notebooks.release(week), {cell.id: cell.source for cell in notebooks.read_source(week).cells}


def _uses_table(book: Book) -> str:
    """Return the solution, changed to fail unless the table T has what the habit wrote into it."""
    return book.solution + "".join(HANDED_ON.format(name=name) for name in book.names)


def in_a_helper_cell(habit: str) -> Callable[[Book], None]:
    """Fill a table in a cell above the exercise's."""

    def rewrite(book: Book) -> None:
        book.add(TABLES[habit])
        book.answer(_uses_table(book))

    return rewrite


def with_a_line(template: str) -> Callable[[Book], None]:
    """Wrap the solution in a template: {solution}, {name} of its last function, {stub}, {body} indented."""

    def rewrite(book: Book) -> None:
        stub = next((line.strip() for line in book.cell().source.splitlines() if "NotImplementedError" in line), "pass")
        name = book.names[-1] if book.names else find(book.exercise).names[0]
        body = textwrap.indent(book.solution, "    ")
        kept = template if book.names or OTHER_NAMES not in template else "{solution}"  # a value is not wrapped
        book.answer(kept.format(solution=book.solution, name=name, stub=stub, body=body))

    return rewrite


def edited_import_cell(book: Book) -> None:
    """Import one more name in the page's first cell, and use another system's line endings."""
    first = next(cell for cell in book.notebook.cells if cell.cell_type == "code")
    first.source += "\nimport numpy as np"
    book.answer("assert np.ones(3).sum() == 3\n" + book.solution)
    for cell in book.notebook.cells:
        cell.source = cell.source.replace("\n", "\r\n")


def blanks_at_line_ends(book: Book) -> None:
    """Add trailing blanks in every cell, as some editors do."""
    book.answer()
    for cell in book.notebook.cells:
        cell.source = cell.source.replace("\n", "  \n") + "\n\n" if cell.cell_type == "code" else cell.source


def answer_in_the_check(book: Book) -> None:
    """Put the answer into the check's cell, above the call."""
    check = book.cell(f"{book.own}-check")
    check.source = f"{book.solution}\n{check.source}"


def own_cell_is_text(book: Book) -> None:
    """Change the exercise's cell to markdown, and put the answer below it."""
    place = book.place(book.own)
    metadata = book.notebook.cells[place].metadata
    book.notebook.cells[place] = new_markdown_cell("my thoughts, 1. and 2.", id=book.own, metadata=metadata)
    book.add(book.solution, below=True)


def own_cell_is_gone(book: Book) -> None:
    """Delete the exercise's cell and write a new one."""
    place = book.place(book.own)
    book.notebook.cells[place] = new_code_cell(book.solution)


def no_ids(book: Book) -> None:
    """Save with a program that does not support cell ids."""
    book.answer()
    book.notebook.nbformat_minor = 4
    for cell in book.notebook.cells:
        cell.pop("id", None)


def twice(book: Book) -> None:
    """Copy the exercise's cell with its marks."""
    book.answer()
    place = book.place(book.own)
    book.notebook.cells.insert(place, nbformat.from_dict(dict(book.notebook.cells[place])))


def cut_in_two(book: Book) -> None:
    """Put all statements but the last into a new cell above."""
    last = ast.parse(book.solution).body[-1]
    lines = book.solution.splitlines(keepends=True)
    first = min([last.lineno, *(one.lineno for one in getattr(last, "decorator_list", []))]) - 1
    book.add("".join(lines[:first]) or "pass")
    book.answer("".join(lines[first:]))


def without_given_cells(book: Book) -> None:
    """Keep only exercises and checks."""
    book.answer()
    book.notebook.cells = [cell for cell in book.notebook.cells if "nbgrader" in cell.metadata]


def old_attempt_above(book: Book) -> None:
    """Put a wrong attempt above the right answer, with its stub as a comment."""
    book.add("".join(f"def {name}(*args, **kwargs):\n    return args\n" for name in book.names) or "pass")
    with_a_line("# {stub}\n{solution}")(book)


def experiment_below(book: Book) -> None:
    """Add another definition below the check."""
    book.answer()
    text = "".join(f"def {name}(*args, **kwargs):\n    return 0\n" for name in book.names)
    book.add(text or "pass", below=True, at=f"{book.own}-check")


def in_a_new_cell_below(book: Book) -> None:
    """Leave the exercise's cell as released, and answer in a new cell below."""
    book.add(book.solution, below=True)


def helper_below_the_check(book: Book) -> None:
    """Use a helper that is defined further down."""
    book.add("def checked(value):\n    return value", below=True, at=f"{book.own}-check")
    wrapped = (
        "{name}_before = {name}\ndef {name}(*args, **kwargs):\n    return checked({name}_before(*args, **kwargs))\n"
    )
    book.answer(book.solution + "\n" + "".join(wrapped.format(name=name) for name in book.names))


OTHER_NAMES = "\n{name}_before = {name}\n"
HABITS: dict[str, Callable[[Book], None]] = {
    **{f"helper cell: {habit}": in_a_helper_cell(habit) for habit in TABLES},
    "as released": with_a_line("{solution}"),
    "main guard": with_a_line('if __name__ == "__main__":\n{body}'),
    "if true": with_a_line("if True:\n{body}\nelse:\n    {name} = None"),
    "try": with_a_line("try:\n{body}\nexcept ImportError:\n    {name} = None"),
    "stub in a comment": with_a_line("# {stub}\n{solution}\n# {stub}"),
    "unreachable stub": with_a_line("{solution}\ndef unused():\n    return 1\n    {stub}"),
    "future": with_a_line("from __future__ import annotations\n{solution}"),
    "shown at the end": with_a_line("{solution}\n{name}"),
    "help": with_a_line("{solution}\n{name}?"),
    "magics": with_a_line("%load_ext autoreload\n%autoreload 2\n{solution}\n!ls"),
    "timed": with_a_line("%%time\n{solution}"),
    "printed": with_a_line("{solution}\nprint({name})\nprint(undefined)"),
    "tried on ranks": with_a_line(
        "{solution}\nimport shardlab\nlosses = shardlab.run({name}, 1, ranks=2)\nprint(losses)"
    ),
    "drawn": with_a_line("{solution}\nfigure, ax = figures.new_axes(3, 2)\nfigures.show(figure, 'In words: x')"),
    "checked here": with_a_line("{solution}\nfrom autograder import check\ncheck('{name}', {name})"),
    "lambda": with_a_line("{solution}" + OTHER_NAMES + "{name} = lambda *a, **k: {name}_before(*a, **k)"),
    "partial": with_a_line(
        "from functools import partial\n{solution}" + OTHER_NAMES + "{name} = partial({name}_before)"
    ),
    "callable object": with_a_line(
        "{solution}"
        + OTHER_NAMES
        + "class Callable:\n    def __call__(self, *a, **k): return {name}_before(*a, **k)\n{name} = Callable()"
    ),
    "method": with_a_line(
        "{solution}"
        + OTHER_NAMES
        + "class Home:\n    @staticmethod\n    def run(*a, **k): return {name}_before(*a, **k)\n{name} = Home.run"
    ),
    "counted": with_a_line(
        "{solution}" + OTHER_NAMES + "COUNT = 0\ndef {name}(*a, **k):\n    global COUNT\n    COUNT += 1\n"
        "    return {name}_before(*a, **k)"
    ),
    "bound again": with_a_line("{solution}\n{name} = {name}"),
    "executed": with_a_line("{solution}\nexec('seen = {name}')"),
    "edited import cell": edited_import_cell,
    "blanks at line ends": blanks_at_line_ends,
    "answer in the check": answer_in_the_check,
    "own cell is text": own_cell_is_text,
    "own cell is gone": own_cell_is_gone,
    "no ids": no_ids,
    "twice": twice,
    "cut in two": cut_in_two,
    "without given cells": without_given_cells,
    "old attempt above": old_attempt_above,
    "experiment below": experiment_below,
    "in a new cell below": in_a_new_cell_below,
    "helper below the check": helper_below_the_check,
}
