"""Find what a page names but does not exist: links, paths, modules, exercises. No named module is imported."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from shardlab.train.recipe import SECTIONS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"shardlab": ROOT / "labs/shardlab", "autograder": ROOT / "autograder", "benchmarks": ROOT / "benchmarks"}
TOP = ("autograder", "benchmarks", "course", "docs", "labs", "solutions", "tests")
PLACEHOLDERS = (("weekNN", "week[0-9][0-9]"), ("_topic", "_*"), ("…", "*"), ("NN", "[0-9][0-9]"))
MADE_LATER = (
    "submitted",
    "students.csv",
    "autograded",
    "feedback",
    "verdicts",
    "gradebook.db",
)  # in autograder/; git ignores them
LEARNERS = ("work", "mine")  # in a folder made by `shardlab study begin`; git ignores them
EXAMPLE = "ring_rounds"  # the made-up exercise of docs/teaching.md
NOT_OURS = {  # files of other repositories or of the reader, and classes of other packages
    "docs/b200", "docs/benchmark_summary.svg", "scripts/train/benchmarking/README.md", "train/tr11-176B-ml",
    "data/ground_truth_multi.csv", "data/ground_truth_single.csv", "roster.csv", "DistributedDataParallel",
    "RankGenerator", "TorchFunctionMode", "ZeroRedundancyOptimizer", "collected.json", "timestamp.txt", "students.csv",
    "solutions/week01_solved.ipynb",
}  # fmt: skip
KEYS = {f"{name}.{one.name}" for name, section in SECTIONS.items() for one in fields(section)}  # keys of a recipe
FILES = ("py", "sh", "md", "csv", "toml", "txt", "yml")


def missing_on(text: str, folder: Path) -> list[str]:
    """Return everything that a page in `folder` names but that does not exist, in words."""
    found = [f"the link {link}" for link in links(text) if not link_leads_somewhere(link, text, folder)]
    found += [f"the path {path}" for path in paths(text) if not path_is_there(path, folder)]
    found += [f"the name {name}" for name in dotted_names(text) if not is_defined(name)]
    found += [f"the exercise {name}" for name in re.findall(r"`(week\d\d\.[a-z0-9-]+)`", text) if not is_exercise(name)]
    return found


def inline_code(text: str) -> list[str]:
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", outside)]


def lines_of_code(text: str) -> list[str]:
    """Return inline code, and the lines of code blocks without prompts and comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return inline_code(text) + [re.sub(r"^\$ |\s+#.*", "", line) for block in blocks for line in block.splitlines()]


# ---- links ---------------------------------------------------------------------------------------------------------


def links(text: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("http", "mailto:"))]


def link_leads_somewhere(link: str, text: str, folder: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = folder / path
    if path and not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text() if path else text)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub generates for a page's headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ---- paths ---------------------------------------------------------------------------------------------------------


def paths(text: str) -> list[str]:
    """Return paths that start at a top folder; in inline code also folders and files given by the end of a path."""
    outside_links = re.sub(r"\]\([^)]*\)", "]", text)
    anywhere = re.findall(rf"(?<![\w/.-])((?:{'|'.join(TOP)})/[\w./*{{}},…-]*)", outside_links)
    wanted = rf"[\w.*{{}},…-]+/|[\w./*{{}},…-]+\.(?:{'|'.join(FILES)})|[\w-]+(?:/[\w-]+)+"
    inline = [code for code in inline_code(text) if re.fullmatch(wanted, code)]
    return list(dict.fromkeys(one.rstrip(".,") for one in [*anywhere, *inline]))


def path_is_there(path: str, folder: Path) -> bool:
    """Resolve from the root or the page's folder; other paths must be the end of one of ours, with or without `.py`.

    `weekNN`, `…`, `*` and `{a,b}` match anything that fits.
    """
    parts = path.rstrip("/").split("/")
    if path in NOT_OURS or EXAMPLE in path or path.startswith("/"):
        return True
    if parts[0] in LEARNERS or (parts[0] == "autograder" and len(parts) > 1 and parts[1] in MADE_LATER):
        return True
    is_from_top = parts[0] in TOP and len(parts) > 1
    return all(_fits_a_file(one, is_from_top, folder) for one in _alternatives(path.rstrip("/")))


def _alternatives(path: str) -> Iterator[str]:
    braces = re.search(r"\{([^}]*)\}", path)
    if braces is None:
        yield path
        return
    for one in braces[1].split(","):
        yield from _alternatives(path[: braces.start()] + one + path[braces.end() :])


def _fits_a_file(path: str, is_from_top: bool, folder: Path) -> bool:
    for word, pattern in PLACEHOLDERS:
        path = path.replace(word, pattern)
    known = all_paths() if is_from_top else ends_of_paths()
    is_pattern = any(sign in path for sign in "*[")
    return path in known or (folder / path).exists() or (is_pattern and any(fnmatch(one, path) for one in known))


@cache
def all_paths() -> frozenset[str]:
    """Return files and folders relative to the root, modules also without `.py`; excludes generated files."""
    found = [path for path in ROOT.iterdir() if path.is_file() or path.name in TOP]
    found += [path for top in TOP for path in (ROOT / top).rglob("*")]
    left_out = {"__pycache__", *MADE_LATER}
    named = [path.relative_to(ROOT) for path in found]
    kept = [str(path) for path in named if not left_out.intersection(path.parts)]
    return frozenset([*kept, *(path.removesuffix(".py") for path in kept)])


@cache
def ends_of_paths() -> frozenset[str]:
    split = [path.split("/") for path in all_paths()]
    return frozenset("/".join(parts[place:]) for parts in split for place in range(len(parts)))


# ---- modules and what they define ----------------------------------------------------------------------------------


def dotted_names(text: str) -> list[str]:
    """Return names of our packages, what Python blocks import from them, and classes and calls in inline code."""
    outside_links = re.sub(r"\]\([^)]*\)", "]", text)
    found = re.findall(rf"(?<![\w/.])((?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+)", outside_links)
    for module, names in re.findall(rf"^from ((?:{'|'.join(PACKAGES)})[\w.]*) import (.+)$", text, re.MULTILINE):
        found += [f"{module}.{name.strip()}" for name in names.split(",")]
    for code in inline_code(text):
        name = re.fullmatch(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z][a-z]+\w*|\w+(?=\())(?:\(.*\))?", code)
        found += [name[1]] if name else []
    others = re.compile(rf"week\d\d\..*|.*\.(?:{'|'.join(FILES)})")  # exercises and files
    return [name for name in dict.fromkeys(found) if not others.fullmatch(name)]


def is_defined(name: str) -> bool:
    """Return whether one of our modules or classes has this name. If the first of several parts is not ours: True."""
    first, *rest = name.split(".")
    if name in NOT_OURS or first == EXAMPLE or name in KEYS:
        return True
    if first in PACKAGES:
        return _resolves(PACKAGES[first], rest)
    homes = [_resolves(path, rest) for path in modules() if rest and path.stem == first]
    homes += [not rest or _in_class(node, rest[0]) for node in definitions().get(first, [])]
    return any(homes) if homes else bool(rest) or name in all_paths()


@cache
def modules() -> tuple[Path, ...]:
    """Return modules and packages; known answers are in folders that are not packages."""
    found = [path for folder in PACKAGES.values() for path in folder.rglob("*")]
    kept = (path for path in found if path.suffix == ".py" or path.is_dir())
    return tuple(path for path in kept if (path.parent / "__init__.py").exists())


@cache
def definitions() -> dict[str, list[ast.stmt]]:
    """Return classes and functions of all modules, by name."""
    found: dict[str, list[ast.stmt]] = {}
    for path in modules():
        for node in _body(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
    return found


@cache
def _body(path: Path) -> list[ast.stmt]:
    """Return the statements of a module, including those under an `if` such as TYPE_CHECKING."""
    body = ast.parse(path.read_text()).body if path.is_file() else []
    return body + [inner for node in body if isinstance(node, ast.If) for inner in node.body]


def _resolves(path: Path, parts: list[str]) -> bool:
    """Return whether the parts resolve from a package or module to a submodule, a name, or a class member."""
    if not parts:
        return True
    if path.is_dir():
        inner = [one for one in (path / parts[0], path / f"{parts[0]}.py") if one.exists()]
        if inner:
            return _resolves(inner[0], parts[1:])
        path = path / "__init__.py"
    for node in _body(path):
        if isinstance(node, ast.ClassDef) and node.name == parts[0]:
            return len(parts) == 1 or _in_class(node, parts[1])
        if parts[0] in _names_bound_by(node):
            return True
    return False


def _in_class(node: ast.stmt, member: str) -> bool:
    body = node.body if isinstance(node, ast.ClassDef) else ()
    return any(member in _names_bound_by(one) for one in body)


def _names_bound_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def is_exercise(name: str) -> bool:
    marked = (f'"{name}"' in page.read_text() for page in (ROOT / "solutions").rglob("*.py"))
    return EXAMPLE in name.replace("-", "_") or any(marked)
