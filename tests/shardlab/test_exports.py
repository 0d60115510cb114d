"""What packages export, how they are composed, suggestions, and terminals."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import shardlab
from jupyter_client.manager import start_new_kernel
from shardlab import costs, data_parallel, hybrid
from shardlab.costs.machines import ACCELERATORS
from shardlab.costs.models.zoo import ZOO, find_model
from shardlab.meant import instead, nearest
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.study.folder import Folder, begin, course_folder
from shardlab.terminal import READABLE, SIGNS

# ---- Names that a page can use after few imports: a package's parts, and a part's modules. ---------------------------

ROOT = Path(__file__).parents[2]
IMPORTS = [  # (a line, the name in it that pyright rejects)
    ("from shardlab import rnu", "rnu"),
    ("from shardlab.hybrid import MeshTraner", "MeshTraner"),
    ("from shardlab.costs import trafic", "trafic"),
    ("shardlab.rnu(print)", "rnu"),
    ("costs.traffic.ring_all_reduce_byte(2, 8)", "ring_all_reduce_byte"),
    ("shardlab.figures.draw_time_line()", "draw_time_line"),
    ("from shardlab import RanksFailed, alive, run", None),
    ("from shardlab.hybrid import MeshTrainer", None),
    ("from shardlab.costs import traffic", None),
    ("shardlab.run(print, ranks=2)", None),
    ("costs.traffic.ring_all_reduce_bytes(2, 8)", None),
    ("shardlab.figures.draw_timeline", None),
]


def test_a_module_of_a_package_is_there_by_its_name():
    assert costs.traffic.ring_all_reduce_bytes(2, 8) == 8
    assert data_parallel.checkpoint.latest and shardlab.model.adam.new_state
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        _ = costs.no_such


def test_every_part_is_there_by_its_name():
    parts = [name for name in dir(shardlab) if name[0].islower() and name not in ("alive", "run")]
    assert len(parts) > 10 and {"costs", "hybrid", "meter"} <= {*parts}
    assert all(getattr(shardlab, part).__name__ == f"shardlab.{part}" for part in parts)


def test_a_name_is_a_modules_or_a_functions(tmp_path, monkeypatch):
    (tmp_path / "overlap.py").write_text("def overlap(): ...")
    (tmp_path / "__init__.py").write_text(
        "from shardlab.exports import lazily\nTYPE_CHECKING = False\n"
        f"if TYPE_CHECKING:\n    from {tmp_path.name}.overlap import overlap\nelse:\n    lazily(__name__)\n"
    )
    monkeypatch.syspath_prepend(tmp_path.parent)
    with pytest.raises(ValueError, match="cannot export 'overlap': a module has this name"):
        __import__(tmp_path.name)


def test_packages_list_what_they_export():
    assert {"run", "RanksFailed", "alive", "figures"} <= {*dir(shardlab)}
    assert dir(hybrid) == hybrid.__all__ and "MeshTrainer" in dir(hybrid)


def test_a_misspelled_name_says_what_was_meant():
    program = "import shardlab.hybrid as hybrid; hybrid.MeshTraner"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "Did you mean: 'MeshTrainer'?" in done.stderr


@pytest.mark.slow
def test_a_kernel_completes_what_packages_export():
    kernel, client = start_new_kernel()
    try:
        client.execute("import shardlab, shardlab.hybrid", reply=True, timeout=60)

        def completed(code: str) -> set[str]:
            matches = client.complete(code, reply=True, timeout=60)["content"]["matches"]
            return {match.rpartition(".")[2] for match in matches}

        assert {*shardlab.__all__} <= completed("shardlab.")
        assert completed("shardlab.hybrid.Mesh") == {"MeshTrainer"}
        assert {*data_parallel.__all__} <= completed("from shardlab.data_parallel import ")
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


@pytest.mark.slow
def test_pyright_refuses_misspelled_names_and_only_those(tmp_path):
    lines = ["import shardlab", "from shardlab import costs", *(line for line, _ in IMPORTS)]
    (tmp_path / "page.py").write_text("\n".join(lines) + "\n")
    settings = {"venvPath": str(ROOT), "venv": ".venv", "extraPaths": [str(ROOT / "labs")], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"reportUnusedExpression": False, **settings}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    found = {
        (one["range"]["start"]["line"], one["message"].split('"')[1])
        for one in json.loads(done.stdout)["generalDiagnostics"]
    }
    assert found == {(number, name) for number, (_, name) in enumerate(IMPORTS, start=2) if name}


def test_importing_the_package_and_a_formula_loads_no_torch():
    program = "import sys, shardlab; shardlab.costs.traffic.broadcast_bytes(2, 8); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_folder_for_checkpoints_is_gone_at_the_end():
    with data_parallel.checkpoint.temporary() as folder:
        (inside := shardlab.data_parallel.checkpoint.Path(folder) / "step").touch()
        assert inside.exists()
    assert not inside.exists()


# ---- The package composes: no class replaces a concrete method that it inherits from another of our classes. ---------

NOT_YET = {  # these classes still inherit; the list may only get shorter
    "CountingStage overrides ModuleStage.forward",
    "MoEGPT overrides GPT.__init__",
    "ParallelMoE overrides MoE.__init__",
    "ParallelMoE overrides MoE.forward",
    "ParallelMoE overrides MoE.load_of_batch",
    "Suspect overrides MeshTrainer._microbatches",
    "Suspect overrides MeshTrainer._sum_gradients",
    "TokensInParts overrides MoE.__init__",
    "TokensInParts overrides MoE.forward",
    "TokensInParts overrides ParallelMoE.__init__",
    "TokensInParts overrides ParallelMoE.forward",
}


def classes_of(package):
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return {
        one
        for module in modules
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
    }


def is_concrete(method):
    """Whether this method has a body. An empty one, as in a callback class, is meant to be overridden."""
    function = inspect.unwrap(getattr(method, "fget", None) or method)
    if not inspect.isfunction(function) or getattr(method, "__isabstractmethod__", False):
        return False
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return not all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in definition.body)


def overrides(kind):
    """Sentences about concrete methods of shardlab base classes that a class overrides."""
    return [
        f"{kind.__name__} overrides {base.__name__}.{name}"
        for base in kind.__mro__[1:]
        if base.__module__.startswith("shardlab.") and not getattr(base, "_is_protocol", False)
        for name, method in vars(base).items()
        if name in vars(kind) and is_concrete(method)
    ]


def test_no_class_overrides_a_concrete_method_of_another():
    kinds = classes_of(shardlab)
    found = {sentence for kind in kinds for sentence in overrides(kind)}
    assert len(kinds) > 200 and found <= NOT_YET, found - NOT_YET


class Base:
    def method(self):
        return 1

    def callback(self):
        """Called occasionally."""


Base.__module__ = "shardlab.toy"


class Derived(Base):
    def method(self):
        return 2

    def callback(self):
        return 3


def test_an_override_is_found():
    assert overrides(Derived) == ["Derived overrides Base.method"]


# ---- Suggestions for misspelled names. -------------------------------------------------------------------------------

COURSE = Folder(course_folder(), course_folder())
KNOWN = {
    "weeks": COURSE.weeks(),
    "exercises": [*COURSE.exercises()],
    "models": [*ZOO],
    "GPUs": [*ACCELERATORS],
    "schedules": [*BUILDERS],
}


def slips(name):
    """The name with a doubled letter, in capitals, and with other separators."""
    middle = len(name) // 2
    return [name[:middle] + name[middle - 1 :], name.upper(), name.replace("-", "_").replace(".", " ")]


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_a_slip_leads_back_to_the_name(kind):
    for name in KNOWN[kind]:
        assert [nearest(slip, KNOWN[kind]) for slip in slips(name)] == [name] * 3


def test_weeks_without_topic_or_zero():
    assert [nearest(one, KNOWN["weeks"]) for one in ("week2", "Week 02", "weke02", "dualpipe")] == [
        *["week02_ddp"] * 3,
        "week13_dualpipe",
    ]


def test_the_sentence_lists_few_names_and_no_long_list_with_a_slip():
    assert instead("tpp", ["tp", "pp"]).startswith("use one of tp, pp; did you mean ")
    assert instead("qqq", ["tp", "pp"]) == "use one of tp, pp"
    assert instead("week02.assign-bukets", KNOWN["exercises"]) == "did you mean week02.assign-buckets?"
    with pytest.raises(ValueError, match=r"did you mean llama3-70b\?"):
        find_model("llama3-70")


# ---- Commands on terminals that lack some characters. ----------------------------------------------------------------

COMMANDS = (
    ("shardlab.commands.cli", "schedule", "dualpipe", "--ranks", "4", "--microbatches", "8"),
    ("shardlab.commands.cli", "study", "--folder", "{folder}"),
    ("shardlab.commands.cli", "plan", "--model", "llama3-70"),
    ("autograder.cli", "grade", "week77"),
)


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1", "cp1252", "utf-8"])
def test_every_character_that_we_print_can_be_encoded(encoding):
    text = "".join(SIGNS) + "激活值 é ∑ 🏖"
    assert text.encode(encoding, READABLE).decode(encoding)
    assert "→ 3 × 4 … ≤".encode("ascii", READABLE) == b"-> 3 x 4 ... <="


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
def test_commands_end_without_a_traceback(encoding, tmp_path):
    begin(tmp_path / "w")
    for module, *arguments in COMMANDS:
        program = f"import sys, {module} as cli; sys.argv[0] = 'x'; cli.main()"
        asked = [sys.executable, "-c", program, *(one.format(folder=tmp_path / "w") for one in arguments)]
        environment = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
        ended = subprocess.run(asked, env=environment, capture_output=True, check=False)
        said = ended.stdout + ended.stderr
        assert b"Traceback" not in said and said.decode(encoding)
