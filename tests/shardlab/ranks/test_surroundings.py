"""A session where nothing can be written, the host name does not resolve and a proxy is set; and what crosses `lo`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert session["seconds"] < 30  # a name that does not resolve costs gloo 35 s


@pytest.mark.slow
@pytest.mark.parametrize("what", ["exchange", "ring"])
def test_the_interface_carried_what_the_meter_says(session, what):
    billed, carried = session[what]["billed"], session[what]["carried"]
    assert billed == {"exchange": 2 * (16 << 20), "ring": 4 * 6 * (4 << 20)}[what]
    assert billed <= carried <= 1.05 * billed  # headers, acknowledgements, our own connection
