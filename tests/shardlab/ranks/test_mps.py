"""The server that shares a GPU: started once, given a share a rank, and gone without a trace. On any machine."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from shardlab.ranks import mps

SERVER = """#!{python}
import os, pathlib, sys, time
pipe = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
if "-f" not in sys.argv:  # the one that brings the order to quit
    (pipe / "quit").write_text(sys.stdin.read())
    sys.exit()
{before}
(pipe / "control").touch()
while not (pipe / "quit").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Puts a stand-in for NVIDIA's program on the PATH; returns a function that says what it does first."""

    def write(before=""):
        program = tmp_path / mps.PROGRAM
        program.write_text(SERVER.format(python=sys.executable, before=before))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    monkeypatch.setattr(mps, "_server", None)
    yield write
    if mps._server is not None:
        mps._server.close()


def test_each_rank_gets_its_share_and_one_server_serves_all_calls(server):
    server()
    first, second = mps.environment(4), mps.environment(3)
    assert first["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert second["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "33"
    assert first["CUDA_MPS_PIPE_DIRECTORY"] == second["CUDA_MPS_PIPE_DIRECTORY"]


def test_it_leaves_no_process_and_no_file(server):
    server()
    folder = Path(mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"]).parent
    assert mps._server
    process = mps._server._process.pid
    assert folder.is_dir()
    assert psutil.pid_exists(process)
    mps._server.close()
    assert not folder.exists()
    assert not psutil.pid_exists(process)


def test_a_server_that_died_is_replaced(server):
    server()
    before = mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"]
    assert mps._server
    mps._server._process.kill()
    mps._server._process.wait()
    assert mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"] != before
    assert not Path(before).exists()


def test_without_a_server_the_ranks_take_turns(server, monkeypatch):
    server(before="sys.exit('no GPU')")
    assert mps.environment(4) == {}
    monkeypatch.setenv("PATH", "")
    assert mps.environment(4) == {}


def test_a_process_that_ends_takes_its_server_along(server):
    server()
    program = "from shardlab.ranks import mps; print(mps.environment(2)['CUDA_MPS_PIPE_DIRECTORY'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not Path(done.stdout.strip()).parent.exists()
