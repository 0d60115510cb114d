"""A lab's script under plain torchrun on two machines: network namespaces with a link between them, and no names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


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
