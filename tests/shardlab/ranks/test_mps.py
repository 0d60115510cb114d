"""The server that shares a GPU: started once, given a share per rank, and gone without a trace. On any machine."""

import os
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import shardlab
from shardlab.ranks import mps, transports

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
    """Puts a substitute for NVIDIA's program on the PATH. Returns a function that sets what it does first."""

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


def processes_of(folder):
    """The keeper and the server that work in this folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("CUDA_MPS_PIPE_DIRECTORY") == str(folder / "pipe"):
                found.append(process)
    return found


def test_it_leaves_no_process_and_no_file(server):
    server()
    folder = Path(mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"]).parent
    assert folder.is_dir()
    assert len(processes_of(folder)) == 2
    assert mps._server
    mps._server.close()
    assert not folder.exists()
    assert not processes_of(folder)


def test_a_server_that_died_is_replaced(server):
    server()
    folder = Path(mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"]).parent
    assert mps._server
    for process in psutil.Process(mps._server._keeper.pid).children():
        process.kill()
    mps._server._keeper.wait(20)
    assert mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"] != str(folder / "pipe")
    assert not folder.exists()


def test_without_a_server_the_ranks_take_turns(server, monkeypatch):
    server(before="sys.exit('no GPU')")
    assert mps.environment(4) == {}
    monkeypatch.setenv("PATH", "")
    assert mps.environment(4) == {}


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_a_process_that_ends_takes_its_server_along_however_it_ends(server, end):
    server()
    program = f"""if True:
        import os
        from shardlab.ranks import mps
        print(mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"], flush=True)
        {end}
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    folder = Path(done.stdout.strip()).parent
    deadline = time.monotonic() + 30
    while (folder.exists() or processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
    assert not processes_of(folder)


@pytest.mark.skipif(transports.count_gpus() > 0, reason="its ranks would find a GPU")
def test_a_call_that_failed_leaves_no_server_to_the_next(server, monkeypatch):
    """NVIDIA's server accepts no new clients after one of its clients was killed."""
    server()
    monkeypatch.setattr(transports, "check_transport", lambda *_: transports.NCCL_SHARED)
    folder = Path(mps.environment(2)["CUDA_MPS_PIPE_DIRECTORY"]).parent
    with pytest.raises(shardlab.RanksFailed):  # here no rank finds a GPU
        shardlab.run(os.getpid, ranks=2, timeout=30)
    assert not folder.exists() and mps._server is None
