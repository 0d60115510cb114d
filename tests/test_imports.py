"""Imports run downward only, as the folder listing promises; files are parsed, never executed."""

import ast
import graphlib
import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"shardlab": ROOT / "labs" / "shardlab", "autograder": ROOT / "autograder"}
ITSELF = "__init__"  # the package's own file: `shardlab.run` is defined in `ranks`
NO_PARTS = {"forgeries", "templates"}  # answers and pages, not the grader's own code
Graph = Mapping[str, set[str]]

# A part may import only parts from earlier lines, not from its own or later lines. Every part is listed here.
LAYERS: dict[str, list[tuple[str, ...]]] = {
    "shardlab": [
        ("exports", "meant", "terminal"),
        ("costs",),
        ("study",),
        ("meter",),
        ("ranks",),
        ("own",),
        ("home",),
        (ITSELF,),
        ("model",),
        ("collectives", "mesh"),
        ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"),
        ("hybrid",),
        ("figures",),
        ("train",),  # draws its own loss curve
        ("commands",),
    ],
    "autograder": [
        ("jobs", "terminal"),
        ("traces",),
        ("checks",),
        ("weeks",),
        ("authoring",),
        ("reading",),
        ("sandboxes",),
        ("judging",),
        (ITSELF,),
        ("grading",),
        ("matrices",),
        ("dashboard", "leaderboard", "lms"),
        ("integrity",),
        ("classroom", "demo", "doctor", "site"),
        ("cli",),
    ],
}


# ---- who imports whom -----------------------------------------------------------------------------------------------


def modules_of(folder: Path) -> dict[str, Path]:
    """{full name: file} of every module below a package's folder."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if not NO_PARTS & {*parts}:
            found[".".join((folder.name, *(part for part in parts if part != ITSELF)))] = path
    return found


def imports_of(module: str, path: Path) -> set[str]:
    """Return full names of everything a file imports, `from a import b` as a.b, except imports for type checkers only.

    Names that a package exports lazily count as imported; its own modules, exported as a whole, do not.
    """
    package = module if path.stem == ITSELF else module.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    names = {f"{home}.{name}" for name, home in lazy_exports(tree).items() if home != package}
    for node in walk_executed(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def lazy_exports(tree: ast.Module) -> dict[str, str]:
    """Return {name: the module after `from`} of a package that exports its names with `lazily`; {} for other files."""
    for node in tree.body:
        if isinstance(node, ast.If) and node.orelse and "lazily(" in ast.unparse(node.orelse[0]):
            imports = [one for one in node.body if isinstance(one, ast.ImportFrom)]
            return {alias.name: str(one.module) for one in imports for alias in one.names}
    return {}


def walk_executed(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from walk_executed(child)


def graph_of(folder: Path) -> Graph:
    """Return {module: modules that it imports} for a package; a name that is not a module counts as its home module."""
    modules = modules_of(folder)
    graph = {}
    for module, path in modules.items():
        homes = {name if name in modules else name.rpartition(".")[0] for name in imports_of(module, path)}
        graph[module] = (homes & modules.keys()) - {module}
    return graph


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ITSELF


def misplaced(graph: Graph, layers: Sequence[tuple[str, ...]]) -> list[str]:
    """Return violations of a list of layers: unlisted parts, listed parts that do not exist, and upward imports."""
    place = {part: number for number, layer in enumerate(layers) for part in layer}
    parts = {part_of(module) for module in graph}
    wrong = [f"{part} is not in the list of layers" for part in sorted(parts - place.keys())]
    wrong += [f"the list of layers has {part}, which does not exist" for part in sorted(place.keys() - parts)]
    for module, others in sorted(graph.items()):
        for other in sorted(others):
            mine, theirs = part_of(module), part_of(other)
            if {mine, theirs} <= place.keys() and mine != theirs and place[theirs] >= place[mine]:
                wrong.append(f"{module} imports {other}, which is not below it")
    return wrong


def circle_in(graph: Graph) -> list[str]:
    """Return modules that import one another in a cycle, with the first repeated at the end; [] without a cycle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


# ---- both packages as they are --------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["shardlab", "autograder"])
def test_every_part_imports_only_what_is_below_it(package):
    assert misplaced(graph_of(PACKAGES[package]), LAYERS[package]) == []


@pytest.mark.parametrize("package", ["shardlab", "autograder"])
def test_no_modules_import_one_another(package):
    assert circle_in(graph_of(PACKAGES[package])) == []


# who, and what its files may not import, although it is a lower layer
FORBIDDEN = [
    (("shardlab",), ("autograder",)),
    (("shardlab.costs", "shardlab.study"), ("torch",)),
    (
        ("shardlab.figures",),
        ("torch.distributed", "shardlab.ranks", "shardlab.meter", "shardlab.collectives", "shardlab.hybrid"),
    ),
    (("shardlab.collectives",), ("shardlab.ranks",)),
    (("shardlab.model",), ("torch.distributed", "shardlab.ranks", "shardlab.meter")),
    (
        ("autograder.jobs",),
        ("autograder.checks", "autograder.judging.judge", "autograder.grading.grade", "autograder.reading.ingest"),
    ),
]


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize(("who", "forbidden"), FORBIDDEN, ids=[" and ".join(who) for who, _ in FORBIDDEN])
def test_what_lies_below_is_not_for_everybody(who, forbidden):
    wrong = [
        f"{module} imports {name}"
        for module, path in modules_of(PACKAGES[who[0].split(".")[0]]).items()
        if within(module, who)
        for name in sorted(imports_of(module, path))
        if within(name, forbidden)
    ]
    assert wrong == []


def test_the_rules_name_modules_that_are_there():
    known = {name for folder in PACKAGES.values() for name in modules_of(folder)}
    named = {name for who, forbidden in FORBIDDEN for name in (*who, *forbidden)}
    assert {name for name in named if name.split(".")[0] in PACKAGES} <= known


def test_no_file_is_named_for_what_it_does_not_say():
    names = {path.stem for folder in PACKAGES.values() for path in modules_of(folder).values()}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_the_top_of_the_package_is_in_the_table_of_its_weeks():
    table = ast.get_docstring(ast.parse((PACKAGES["shardlab"] / "__init__.py").read_text())) or ""
    parts = {part for layer in LAYERS["shardlab"] for part in layer} - {ITSELF, "exports", "meant", "terminal"}
    assert {part for part in parts if f"`{part}`" not in table} == set()


@pytest.mark.parametrize(
    "module", ["shardlab.costs.traffic", "shardlab.costs", "shardlab.pipeline_parallel", "shardlab"]
)
def test_formulas_load_no_torch(module):
    program = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- what packages export -------------------------------------------------------------------------------------------


EXPORTS = {
    name: exports
    for name, path in modules_of(PACKAGES["shardlab"]).items()
    if path.stem == ITSELF and (exports := lazy_exports(ast.parse(path.read_text())))
}


@pytest.mark.parametrize("package", EXPORTS)
def test_every_exported_name_is_there_after_all_modules_are(package):
    """Check in another process after importing every module of the package, because a module could replace a name."""
    folder = PACKAGES["shardlab"].joinpath(*package.split(".")[1:])
    modules = [
        f"{package}.{path.stem}" for path in sorted(folder.glob("*.py")) if path.stem not in (ITSELF, "__main__")
    ]
    program = (
        f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"package = importlib.import_module({package!r})\n"
        f"assert dir(package) == package.__all__ == {sorted(EXPORTS[package])!r}\n"
        f"for name, home in {EXPORTS[package]!r}.items():\n"
        "    is_module = home == package.__name__\n"
        "    there = importlib.import_module(f'{home}.{name}' if is_module else home)\n"
        "    assert getattr(package, name) is (there if is_module else getattr(there, name)), name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- the reader itself ----------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    """A package of two layers, `high` above `low`; each test adds a violation."""
    folder = tmp_path / "toy"
    for part in ("low", "high"):
        (folder / part).mkdir(parents=True)
        (folder / part / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "low" / "floor.py").write_text("WIDTH = 1\n")
    (folder / "high" / "roof.py").write_text("from toy.low import floor\nfrom toy.low.floor import WIDTH\n")
    return folder


TOY = [(ITSELF,), ("low",), ("high",)]


def test_a_tree_in_order_is_right(tree):
    assert graph_of(tree)["toy.high.roof"] == {"toy.low.floor"}
    assert misplaced(graph_of(tree), TOY) == [] and circle_in(graph_of(tree)) == []


@pytest.mark.parametrize(
    "upward",
    [
        "import toy.high.roof",
        "from toy.high import roof",
        "from ..high import roof",
        "def late():\n    from toy.high.roof import WIDTH",
    ],
)
def test_an_import_upward_is_found(tree, upward):
    (tree / "low" / "floor.py").write_text(upward + "\n")
    assert misplaced(graph_of(tree), TOY) == ["toy.low.floor imports toy.high.roof, which is not below it"]
    assert {*circle_in(graph_of(tree))} == {"toy.low.floor", "toy.high.roof"}


def test_parts_side_by_side_may_not_import_one_another(tree):
    assert misplaced(graph_of(tree), [(ITSELF,), ("low", "high")]) == [
        "toy.high.roof imports toy.low.floor, which is not below it"
    ]


def test_a_part_without_a_place_and_a_place_without_a_part_are_found(tree):
    (tree / "cellar.py").touch()
    assert misplaced(graph_of(tree), [*TOY, ("spire",)]) == [
        "cellar is not in the list of layers",
        "the list of layers has spire, which does not exist",
    ]


def test_what_the_package_itself_holds_has_a_place_too(tree):
    (tree / "__init__.py").write_text("def __getattr__(name):\n    from toy.high.roof import WIDTH\n")
    (tree / "low" / "floor.py").write_text("from toy import WIDTH\n")
    assert misplaced(graph_of(tree), [("low",), ("high",), (ITSELF,)]) == [
        "toy.low.floor imports toy, which is not below it"
    ]


def test_a_circle_inside_a_part_is_found(tree):
    (tree / "low" / "floor.py").write_text("from toy.low.wall import HEIGHT\n")
    (tree / "low" / "wall.py").write_text("def late():\n    from toy.low import floor\n")
    assert {*circle_in(graph_of(tree))} == {"toy.low.floor", "toy.low.wall"}


def test_a_module_that_asks_its_own_package_for_a_name_is_a_circle(tree):
    exports = "if TYPE_CHECKING:\n    from toy.low.floor import WIDTH\nelse:\n    x = lazily(__name__)\n"
    (tree / "low" / "__init__.py").write_text(exports)
    (tree / "low" / "floor.py").write_text("from toy.low import WIDTH\n")
    assert {*circle_in(graph_of(tree))} == {"toy.low", "toy.low.floor"}


def test_the_reader_of_imports_sees_them_all(tmp_path):
    source = "import a.b, c\nfrom d.e import f\nfrom . import g\nfrom ..h import i\ndef late():\n    import j\n"
    path = tmp_path / "module.py"
    path.write_text(source + "if TYPE_CHECKING:\n    import k\n")
    names = imports_of("p.q.module", path)
    assert names == {"a.b", "c", "d.e.f", "p.q.g", "p.h.i", "j"}


def test_no_two_test_files_share_a_name():
    """pytest imports test files by their base names and refuses the second of two."""
    names = sorted(path.name for folder in ("tests", "solutions") for path in (ROOT / folder).rglob("test_*.py"))
    assert [name for name, same in itertools.groupby(names) if len(list(same)) > 1] == []
