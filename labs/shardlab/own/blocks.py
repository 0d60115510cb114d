"""A block is the code that one exercise adds to a module of `mine`: its functions and their helpers."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from shardlab.own.pieces import PIECES, Piece, pieces

FORMAT = 1
MARK = re.compile(r"(?m)^# ---- (week\d\d\.[\w-]+) \(([0-9a-f]{6})\) -+$")  # digest of the signatures
PROGRAMS = {  # the lines that make `python -m mine.train` runnable, added with this exercise
    "week15.loop": 'if __name__ == "__main__":\n    program.main(new_trainer, train_step)'
}
ALIAS = re.compile(r"\w+ = [\w.]+")  # like `dist = torch.distributed`; goes with the imports


@dataclass(frozen=True)
class Block:
    """The imports that an answer needs (one per line) and its statements in order, as (bound name, source)."""

    imports: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    signatures: str = ""  # digest of the course's signatures at the time the block was written

    @property
    def names(self) -> set[str]:
        """The names it defines."""
        return {name for name, _ in self.parts}


Blocks = dict[str, Block]  # by exercise


class Clash(ValueError):
    """Two blocks of a module define one name differently."""


def module_source(module: str, blocks: Mapping[str, Block]) -> str:
    """The source of a module of `mine`, built from the blocks of its exercises that exist.

    A helper that several blocks share appears once. Raises Clash if its source differs between blocks.
    """
    found = {exercise: blocks[exercise] for exercise in PIECES[module] if exercise in blocks}
    seen: dict[str, tuple[str, str]] = {}
    sections, aliases = [], []
    for exercise, block in found.items():
        new = []
        for name, source in block.parts:
            first, text = seen.setdefault(name, (exercise, source))
            if text != source:
                raise Clash(f"{exercise} and {first} define `{name}` differently: rename it in one of the two answers")
            if first == exercise:
                (aliases if ALIAS.fullmatch(source) else new).append(source)
        title = f"# ---- {exercise} ({block.signatures or '000000'}) "
        sections.append(f"{title:-<88}\n\n\n" + "\n\n\n".join(new))
    weeks = ", ".join(sorted({exercise.partition(".")[0] for exercise in found}))
    head = [f'"""{module.replace("_", " ").capitalize()}: my answers of {weeks}."""']
    head += _imports({line for block in found.values() for line in block.imports})
    head += ["\n".join(dict.fromkeys(aliases))] if aliases else []
    programs = [PROGRAMS[exercise] for exercise in found if exercise in PROGRAMS]
    return "\n\n\n".join(["\n\n".join(head), *sections, *programs]) + "\n"


def _imports(lines: set[str]) -> list[str]:
    """`from __future__` imports first, then the rest, merged by module as `from module import a, b`."""
    merged: dict[tuple[str, int], set[str]] = {}
    plain = set()
    for line in lines:
        node = ast.parse(line).body[0]
        if isinstance(node, ast.ImportFrom):
            merged.setdefault((node.module or "", node.level), set()).update(ast.unparse(one) for one in node.names)
        else:
            plain.add(line)
    froms = [f"from {module} import {', '.join(sorted(names))}" for (module, _), names in sorted(merged.items())]
    every = [*sorted(plain), *froms]
    future = [line for line in every if line.startswith("from __future__")]
    rest = [line for line in every if line not in future]
    return ["\n".join(group) for group in (future, rest) if group]


def signature_digest(block: Block, names: tuple[str, ...]) -> str:
    """Six hex digits that change with the parameters of the named functions, or of the named classes' methods."""
    functions = [
        f"{name}.{node.name}{ast.unparse(node.args)}"
        for name, source in block.parts
        if name in names
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and (node.name == name or node.name in ("forward", "backward"))
    ]
    return hashlib.sha256("\n".join(functions).encode()).hexdigest()[:6]


def unusable(source: str) -> str:
    """Why a module's source cannot be used, as the end of a sentence; "" if it can."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is not Python ({str(error)[:80]})"
    defined = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    twice = next((name for name in defined if defined.count(name) > 1), None)
    return f"it defines {twice} twice: delete one of the two" if twice else ""


def dumped(blocks: Blocks) -> str:
    """Blocks as JSON text."""
    return json.dumps({name: asdict(one) for name, one in sorted(blocks.items())}, indent=1, ensure_ascii=False) + "\n"


def loaded(text: str) -> Blocks:
    """The inverse of `dumped`. Raises ValueError for any other text."""
    try:
        found = {
            str(name): Block(
                tuple(map(str, one["imports"])),
                tuple((str(bound), str(source)) for bound, source in one["parts"]),
                str(one["signatures"]),
            )
            for name, one in json.loads(text).items()
        }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a set of blocks of `mine` ({type(error).__name__}: {error})") from None
    known = {one.exercise for one in pieces()}
    return {name: one for name, one in found.items() if name in known}


# ---- the course's answers, packed so that students do not read one by accident --------------------------------------


def packed(blocks: Blocks) -> str:
    """The course's blocks as the text of `own.json`."""
    data = zlib.compress(dumped(blocks).encode(), 9)
    note = "The course's answers, used until a learner has written their own. Packed to avoid spoilers."
    return json.dumps({"about": note, "format": FORMAT, "blocks": b85encode(data).decode()}, indent=1) + "\n"


def unpacked(text: str) -> Blocks:
    """The inverse of `packed`. Raises ValueError for any other text."""
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise ValueError(f"it has format {found['format']!r} and this course reads {FORMAT}")
        return loaded(zlib.decompress(b85decode(found["blocks"])).decode())
    except (KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"it is broken ({type(error).__name__}: {error})") from None


def course_blocks(pages: Path) -> Blocks:
    """The course's own blocks; empty if the course was distributed without them."""
    path = pages / "own.json"
    return unpacked(path.read_text(encoding="utf-8")) if path.is_file() else {}


def course_digest(piece: Piece, blocks: Mapping[str, Block]) -> str:
    """The digest of the course's signatures for a piece; "000000" if the course came without its answers."""
    return blocks[piece.exercise].signatures if piece.exercise in blocks else "000000"
