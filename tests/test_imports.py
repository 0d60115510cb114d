"""Imports run downward only, as the folder listing promises: each file's imports are read, none is executed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"shardlab": ROOT / "labs" / "shardlab", "autograder": ROOT / "autograder"}
PARALLELISMS = ("data_parallel", "tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel")
ABOVE_RANKS = ("figures", "collectives", "mesh", "model", "hybrid", "train", "commands", *PARALLELISMS)


def modules_of(package: str) -> Iterator[tuple[str, Path]]:
    folder = PACKAGES[package]
    for path in sorted(folder.rglob("*.py")):
        if "mutants" not in path.parts:
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in parts if part != "__init__"))), path


def imports_of(module: str, path: Path) -> set[str]:
    """Full names of what a file imports anywhere, `from a import b` as a and a.b; not what only type checkers read."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in walk_executed(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return names


def walk_executed(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from walk_executed(child)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def shard(*names: str) -> tuple[str, ...]:
    return tuple(f"shardlab.{name}" for name in names)


# who, and what none of its files may import
FORBIDDEN = [
    (("shardlab",), ("autograder",)),
    (shard("costs"), ("torch", *shard("ranks", "meter", *ABOVE_RANKS))),
    (shard("figures"), ("torch.distributed", *shard("ranks", "meter", "collectives", "commands"))),
    (shard("ranks", "meter"), shard(*ABOVE_RANKS)),
    (shard("collectives"), shard("ranks", "figures", "commands", *PARALLELISMS)),
    (shard("model"), ("torch.distributed", *shard("ranks", "mesh", "collectives", *PARALLELISMS))),
    *((shard(one), shard(*(other for other in PARALLELISMS if other != one))) for one in PARALLELISMS),
    (("autograder.jobs",), ("autograder.checks", "autograder.judge", "autograder.grade", "autograder.ingest")),
]


@pytest.mark.parametrize(("who", "forbidden"), FORBIDDEN, ids=[" and ".join(who) for who, _ in FORBIDDEN])
def test_imports_run_downward(who, forbidden):
    wrong = [
        f"{module} imports {name}"
        for module, path in modules_of(who[0].split(".")[0])
        if within(module, who)
        for name in sorted(imports_of(module, path))
        if within(name, forbidden)
    ]
    assert wrong == []


def test_the_reader_of_imports_sees_them_all(tmp_path):
    source = "import a.b, c\nfrom d.e import f\nfrom . import g\nfrom ..h import i\ndef late():\n    import j\n"
    path = tmp_path / "module.py"
    path.write_text(source + "if TYPE_CHECKING:\n    import k\n")
    names = imports_of("p.q.module", path)
    assert names >= {"a.b", "c", "d.e", "d.e.f", "p.q.g", "p.h.i", "j"}
    assert "k" not in names


def test_no_file_is_named_for_what_it_does_not_say():
    names = {path.stem for package in PACKAGES for _, path in modules_of(package)}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize("module", ["shardlab.costs.traffic", "shardlab.costs", "shardlab"])
def test_formulas_load_no_torch(module):
    program = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
