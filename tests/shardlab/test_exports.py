"""Names that a page can use after few imports: a package's parts, and a part's modules."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import shardlab
from jupyter_client.manager import start_new_kernel
from shardlab import costs, data_parallel, hybrid

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
