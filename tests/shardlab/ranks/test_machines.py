"""Ranks on several machines, and in different environments."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import shardlab
import torch.distributed as dist
from shardlab.ranks.rendezvous import OURS, agreed_name, refuse_inside_torchrun
from shardlab.ranks.travel import child_environment

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
