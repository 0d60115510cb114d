"""For every collective, functional ones and uneven splits included, the meter bills what travels."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("every_collective.py")
MORE = {"reduce": 1.25, "reduce_scatter": 2.0}  # gloo's: a reduce-scatter and a gather; an all-reduce
HEADERS = 40_000  # bytes of a call and of the barriers around it, at most
# On a busy machine TCP takes a late acknowledgement for a lost packet and sends 64 KB again, which no call asked for.
NO_PROBES = "echo 0 2>/dev/null > /proc/sys/net/ipv4/tcp_early_retrans"


@pytest.fixture(scope="module")
def totals():
    """{collective: (bytes billed, bytes that travelled)} of four ranks, on a loopback that nobody else uses."""
    inside = f"ip link set lo up; {NO_PROBES}; exec {sys.executable} {SCRIPT}"
    if shutil.which("ip") is None or subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        pytest.skip("needs a network namespace of its own")
    done = subprocess.run(["unshare", "-rn", "sh", "-c", inside], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_meter_bills_what_travels(totals):
    assert len(totals) == 24
    for name, (billed, travelled) in totals.items():
        factor = MORE.get(name.removeprefix("functional ").split(",")[0].removesuffix("_single"), 1.0)
        assert travelled == pytest.approx(factor * billed, rel=0.01, abs=HEADERS), name


def test_what_stays_on_its_rank_is_not_billed(totals):
    assert totals["all_to_all_single, to itself"][0] == 0
    whole = totals["permute_tensor, all"][0]
    assert totals["permute_tensor, some"][0] == whole / 2 > 0
