"""What a page may write after few imports: a package's parts and a part's modules by their names."""

import subprocess
import sys

import pytest
import shardlab
from shardlab import costs, data_parallel
from shardlab.exports import lazily


def test_a_module_of_a_package_is_there_by_its_name():
    assert costs.traffic.ring_all_reduce_bytes(2, 8) == 8
    assert data_parallel.checkpoint.latest and shardlab.model.adam.new_state
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        _ = costs.no_such


def test_every_part_is_there_by_its_name():
    assert all(getattr(shardlab, part).__name__ == f"shardlab.{part}" for part in shardlab.PARTS)


def test_a_name_is_a_modules_or_a_functions():
    with pytest.raises(ValueError, match="a module has this name"):
        lazily("shardlab.costs", traffic=("overlap",), overlap=())


def test_importing_the_package_and_a_formula_loads_no_torch():
    program = "import sys, shardlab; shardlab.costs.traffic.broadcast_bytes(2, 8); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_folder_for_checkpoints_is_gone_at_the_end():
    with data_parallel.checkpoint.temporary() as folder:
        (inside := shardlab.data_parallel.checkpoint.Path(folder) / "step").touch()
        assert inside.exists()
    assert not inside.exists()
