"""Write the package `mine` of the course's own answers, for the tests of week 15's trainer.

A page is read as text, and nothing in it is run. `CHANGES` and the folder `changed` hold the signatures of answers that
a trainer can call, for as long as the pages do not have them.
"""

import ast
import dis
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]
GIVEN = ROOT / "labs" / "shardlab" / "own" / "given"
DRAFT = ROOT / "labs" / "shardlab" / "own" / "trainer_draft"
CHANGED = Path(__file__).with_name("changed")
MODULES: dict[str, tuple[str, list[str]]] = {  # what the trainer calls
    "collectives": ("week01", ["ring_all_reduce"]),
    "ddp": ("week02", ["assign_buckets", "ddp_backward"]),
    "zero": ("week03", ["flatten_and_pad", "mean_slice", "zero1_state", "zero1_step", "zero2_backward"]),
    "fsdp": ("week04", ["Gather"]),
    "tensor_parallel": ("week05", ["vocabulary_loss"]),
    "sequence_parallel": ("week06", ["gather_sequence", "scatter_sequence", "mlp_block", "recompute_function"]),
    "pipeline": ("week07", ["split_stages", "gpipe", "one_f_one_b", "run_slots"]),
    "zero_bubble": ("week08", ["interleaved", "zb_h1"]),
    "mesh": ("week09", ["coordinates", "my_groups"]),
    "moe": ("week11", ["choose", "moved_bias"]),
    "expert_parallel": ("week12", ["expert_layer"]),
    "dualpipe": ("week13", ["dualpipe_v"]),
    "long_context": ("week14", ["my_part", "ring_attention", "ring_backward"]),
    "build": ("week15", ["sequences", "finish_gradients"]),
}
INSTEAD = {"adam": "from mine import adam"}  # for what a page takes from shardlab
CHANGES = {
    "week02": [
        ("    for parameter in parameters:\n        dist.broadcast(parameter.data, group_src=0, group=group)\n", ""),
    ],
    "week03": [
        ("def zero1_step(parameters, gradients, state,", "def zero1_step(parameters, mean, state,"),
        ("adam.update(state, mean_slice(gradients, group=group), lr=lr)", "adam.update(state, mean, lr=lr)"),
        ("def zero2_backward(model, inputs, *,", "def zero2_backward(parameters, loss, *,"),
        ("for parameter in model.parameters():\n        hooks", "for parameter in parameters:\n        hooks"),
        ("model(inputs).square().mean().backward()", "loss.backward()"),
        ("return [slices[parameter] for parameter in model.parameters()]", "return [slices[p] for p in parameters]"),
    ],
    "week04": [
        ("def gathered(shard, width, group):", "def gathered(shard, shape, group):"),
        ("return whole[: width * width].view(width, width)", "return whole[: shape.numel()].view(shape)"),
        ("def forward(ctx, shard, width, group):", "def forward(ctx, shard, shape, group):"),
        ("return gathered(shard, width, group)", "return gathered(shard, shape, group)"),
    ],
}


def compose(folder: Path) -> Path:
    """Write `folder`/mine and return it."""
    target = folder / "mine"
    target.mkdir(parents=True)
    (target / "__init__.py").write_text("")
    shutil.copy(ROOT / "labs" / "shardlab" / "model" / "adam.py", target / "adam.py")
    for name, (week, names) in MODULES.items():
        (target / f"{name}.py").write_text(module(name, week, names))
    for path in [*GIVEN.glob("*.py"), *DRAFT.glob("*.py")]:
        shutil.copy(path, target / path.name)
    return target


def module(name: str, week: str, names: list[str]) -> str:
    """The source of a module of `mine`."""
    (path,) = (ROOT / "solutions").glob(f"{week}_*/{week}_*.py")
    page = path.read_text()
    for old, new in CHANGES.get(week, []):
        page = page.replace(old, new)  # nothing, once the page has the new signature
    changed = CHANGED / f"{name}.py"
    extra = changed.read_text() if changed.is_file() else ""
    return extracted(page, extra, names)


def statements(page: str, extra: str) -> list[tuple[ast.stmt, list[str]]]:
    """(statement, its lines) of a page's code cells, in order, and of a module's text after them."""
    found: list[tuple[ast.stmt, list[str]]] = []
    texts = []
    for cell in re.split(r"(?m)^# %%", page)[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" not in head and "check=" not in head:
            texts.append(body)
    for text in [*texts, extra]:
        for node in ast.parse(text).body:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            found.append((node, text.splitlines()[first - 1 : node.end_lineno]))
    return found


def binds(node: ast.stmt) -> set[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def reads(node: ast.stmt) -> Iterable[str]:
    """The names that a statement looks up in its module, at once or when a function of it is called."""
    todo, found = [compile(ast.Module([node], []), "<page>", "exec")], set()
    while todo:
        code = todo.pop()
        found |= {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def extracted(page: str, extra: str, names: list[str]) -> str:
    """The statements that define these names and what they need; the last definition of a name counts."""
    every = statements(page, extra)
    due: set[int] = set()
    todo, asked, imports = list(names), set(), []
    while todo:
        name = todo.pop()
        if name in asked:
            continue
        asked.add(name)
        if name in INSTEAD:
            imports.append(INSTEAD[name])
        elif places := [place for place, (node, _) in enumerate(every) if name in binds(node)]:
            due.add(places[-1])
            todo += reads(every[places[-1]][0])
    body = []
    for place in sorted(due):
        node, lines = every[place]
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += lines
        else:
            body += ["", "", *(line for line in lines if "### BEGIN SOLUTION" not in line and "### END" not in line)]
    return "\n".join([*imports, *body]).lstrip("\n") + "\n"
