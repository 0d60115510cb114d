"""Several machines, and MPS."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import shardlab
import torch.distributed as dist
from shardlab.ranks import mps, transports
from shardlab.ranks.rendezvous import OURS, agreed_name, refuse_inside_torchrun
from shardlab.ranks.travel import child_environment

# ---- Ranks on several machines, and in different environments. -------------------------------------------------------

# ---- Ranks restarted by torchrun meet under a fresh name; shardlab.run inside torchrun is refused --------------------


def names_of_an_attempt(store, size):
    names = [""] * size

    def join(rank):
        names[rank] = agreed_name(store, rank, size, 20)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in reversed(range(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return names


def test_each_attempt_has_one_name_of_its_own_in_a_store_that_stays():
    store = dist.HashStore()
    attempts = [names_of_an_attempt(store, size) for size in (3, 3, 1, 2, 4)]  # nodes leave and join
    assert all(len({*names}) == 1 and names[0] for names in attempts)
    assert len({names[0] for names in attempts}) == len(attempts)


def test_a_rank_whose_peers_stay_away_gives_up():
    with pytest.raises(dist.DistStoreError, match="did not answer"):
        agreed_name(dist.HashStore(), 0, 2, 0.1)


@pytest.mark.parametrize(
    ("environment", "is_refused"),
    [
        ({}, False),
        ({"RANK": "0", "WORLD_SIZE": "4"}, False),  # variables set in a notebook cell
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "1", "RANK": "0"}, False),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2", "RANK": "1"}, True),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2", "RANK": "1", OURS: "a"}, False),  # a rank of shardlab.run
        ({"TORCHELASTIC_RUN_ID": "b", "WORLD_SIZE": "2", "RANK": "1", OURS: "a"}, True),  # torchrun inside such a rank
    ],
)
def test_only_a_rank_of_somebodys_torchrun_may_not_start_ranks(monkeypatch, environment, is_refused):
    for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", OURS):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert OURS not in child_environment()
    if not is_refused:
        refuse_inside_torchrun()
        return
    with pytest.raises(RuntimeError, match=r"rank 1 of torchrun called shardlab\.run.*torchrun_group"):
        shardlab.run(dist.get_rank, ranks=2)


# A lab script under plain torchrun on two machines: linked network namespaces without name resolution


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines():
    """Two network namespaces, 10.214.0.1 and 10.214.0.2."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names = [f"m{os.getpid() % 10000}{letter}" for letter in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", names[0], "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.214.0.{number}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.slow
def test_a_lab_script_spans_two_machines(machines):
    script = str(Path(__file__).with_name("a_lab_script.py"))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [
                *("ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes=2", f"--node-rank={number}", "--nproc-per-node=2"),
                *("--master-addr=10.214.0.1", "--master-port=29123", script),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number, name in enumerate(machines)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    lines = sorted(line for out, _ in outputs for line in out.splitlines())
    assert lines == [f"rank {rank} of 4: 6, 48 bytes" for rank in range(4)], outputs


# A session where nothing is writable, the host name does not resolve and a proxy is set; and the bytes on `lo`


ROOT = Path(__file__).parents[3]
HOSTILE = [
    *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--remount-ro", "/dev"),
    *("--unshare-net", "--unshare-uts", "--hostname", "nowhere.invalid", "--die-with-parent"),
]
PROXIES = {name: "http://127.0.0.1:9" for name in ("http_proxy", "HTTPS_PROXY", "all_proxy")}


@pytest.fixture(scope="module")
def session():
    if shutil.which("bwrap") is None or subprocess.run([*HOSTILE, "true"], check=False).returncode:
        pytest.skip("needs bubblewrap and user namespaces")
    command = [*HOSTILE, sys.executable, "-B", Path(__file__).with_name("a_session.py")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | PROXIES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_nothing_can_be_written_and_the_ranks_run(session):
    assert session["writable"] == []
    assert session["first"] == [0, 1, 2, 3]


@pytest.mark.slow
def test_no_host_name_is_asked_for(session):
    assert session["seconds"] < 30  # an unresolvable name costs gloo 35 s


@pytest.mark.slow
@pytest.mark.parametrize("what", ["exchange", "ring"])
def test_the_interface_carried_what_the_meter_says(session, what):
    billed, carried = session[what]["billed"], session[what]["carried"]
    assert billed == {"exchange": 2 * (16 << 20), "ring": 4 * 6 * (4 << 20)}[what]
    assert billed <= carried <= 1.05 * billed  # headers, acknowledgements, our own connection


# ---- The server that shares a GPU: started once, given a share per rank, and gone without a trace. On any machine. ---

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
