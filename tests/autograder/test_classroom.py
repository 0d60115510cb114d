"""compose.yaml does what docs/classroom.md promises; students' accounts are never system accounts."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from autograder.classroom import accounts
from autograder.judging import cluster
from autograder.reading.dossier import Dossier

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text()
SERVICES = yaml.safe_load(TEXT)["services"]
VOLUMES = {name: dict(one.split(":")[:2] for one in service.get("volumes", [])) for name, service in SERVICES.items()}


NETWORKS = yaml.safe_load(TEXT)["networks"]


def test_only_hub_and_desk_can_be_reached_and_by_this_machine_alone():
    assert {name: one["ports"] for name, one in SERVICES.items() if "ports" in one} == {
        "hub": ["${HUB_ADDRESS:-127.0.0.1}:${HUB_PORT:-8000}:8000"],
        "desk": ["${DESK_ADDRESS:-127.0.0.1}:${DESK_PORT:-8001}:8001"],
    }
    inside = {name for name, one in NETWORKS.items() if one and one.get("internal")}
    assert all(set(one["networks"]) <= inside for name, one in SERVICES.items() if name not in ("hub", "desk"))


def test_students_servers_share_nothing_with_the_graders():
    """They run in the hub's container, so they can try to reach everything it can reach."""
    hub, others = SERVICES["hub"], {name: one for name, one in SERVICES.items() if name != "hub"}
    assert not [name for name, one in others.items() if set(one["networks"]) & set(hub["networks"])]
    assert set(VOLUMES["hub"]) == {"homes", "exchange", "hub"}
    assert set(hub["environment"]) == {"INSTRUCTOR_PASSWORD", "NBGRADER_EXCHANGE"}
    config = (ROOT / "autograder/classroom/jupyterhub_config.py").read_text()
    assert "GRADEBOOK_URL" not in config and "DASK_" not in config
    assert "homes:/home:ro" in SERVICES["desk"]["volumes"]  # maps user numbers to names, read-only


def test_no_password_stands_in_the_file_and_the_example_names_all():
    wanted = set(re.findall(r"\$\{(\w+)", TEXT))
    example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / "autograder/classroom/env.example").read_text(), re.MULTILINE))
    assert wanted == set(example)
    assert all(example[name] == "" and f"${{{name}:?" in TEXT for name in wanted if name.endswith("PASSWORD"))


def test_who_runs_answers_has_no_privileges_and_not_the_gradebook():
    worker = SERVICES["worker"]
    assert worker["cap_drop"] == ["ALL"] and worker["user"] == "1000" and "privileged" not in TEXT
    assert not {"GRADEBOOK_URL", "INSTRUCTOR_PASSWORD"} & set(worker["environment"])
    assert not {"homes", "gradebook", "exchange"} & set(VOLUMES["worker"])
    assert "course:/srv/course:ro" in worker["volumes"] and "keys:/srv/keys:ro" in worker["volumes"]


def test_every_service_says_whether_it_is_well_and_keeps_what_it_writes():
    assert all("healthcheck" in one for one in SERVICES.values())
    assert {volume for one in VOLUMES.values() for volume in one} == set(yaml.safe_load(TEXT)["volumes"])


def test_dask_speaks_with_holders_of_the_key_alone():
    for name in ("desk", "scheduler", "worker"):
        keys = SERVICES[name]["environment"]
        assert keys["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
        roles = {"SCHEDULER", "WORKER", "CLIENT"}
        assert all(keys[f"DASK_DISTRIBUTED__COMM__TLS__{role}__{kind}"] for role in roles for kind in ("CERT", "KEY"))
        assert (
            keys["DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES"] == keys["DASK_DISTRIBUTED__WORKER__HTTP__ROUTES"] == "[]"
        )
    assert "--protocol tls" in (ROOT / "autograder/classroom/scheduler.sh").read_text()
    assert "--dashboard-address 127.0.0.1:0" in SERVICES["worker"]["command"]


PATHS = (
    "info/main/workers.html",
    "info/worker/x.html",
    "info/task/x.html",
    "info/logs.html",
    "json/counts.json",
    "json/identity.json",
    "json/index.html",
    "metrics",
    "health",
    "status",
    "individual-workers",
    "proxy/1/2/3",
    "statics/css/base.css",
    "",
)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def answers(port: int, path: str) -> str:
    """Return the status and text of an HTTP server's answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return f"{answer.status} {answer.read().decode(errors='replace')}"
    except urllib.error.HTTPError as error:
        return str(error.code)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="the cluster's key needs openssl")
def test_the_scheduler_tells_nobody_what_runs(tmp_path):
    """The real scheduler, started as in compose.yaml: it listens only on loopback and serves no page."""
    port, http = free_ports(2)
    told = SERVICES["scheduler"]["environment"].items()
    keys = {name: str(value).replace("/srv/keys", str(tmp_path)) for name, value in told}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | keys | {"PATH": path, "KEYS": str(tmp_path), "PORT": str(port), "HTTP_PORT": str(http)}
    command = ["sh", str(ROOT / "autograder/classroom/scheduler.sh")]
    with (tmp_path / "log").open("w") as log:
        scheduler = subprocess.Popen(command, env=environment, stderr=log, start_new_session=True)
    try:
        wait_for(scheduler, port, tmp_path / "log")
        mine = {one.laddr for one in psutil.Process(scheduler.pid).net_connections() if one.status == "LISTEN"}
        assert {one.ip for one in mine if one.port == http} == {"127.0.0.1"}
        assert {one.port for one in mine} == {port, http}
        assert {path: answers(http, path) for path in PATHS} == dict.fromkeys(PATHS, "404")
    finally:
        os.killpg(scheduler.pid, signal.SIGKILL)
        scheduler.wait()


def wait_for(process: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    pytest.fail(log.read_text())


def test_judging_on_this_machine_tells_nobody_what_runs(monkeypatch):
    """Students of a shared machine can reach loopback: the cluster of threads serves no page, and its keys no names."""
    from distributed import Client, default_client

    seen = {}

    def look(dossier, seed):
        return dossier.student

    real = cluster._client

    def watched(*args) -> Client:
        client = real(*args)
        port = client.cluster.scheduler.http_server.port
        seen.update({path: answers(port, path) for path in PATHS})
        return client

    monkeypatch.setattr(cluster, "_client", watched)
    monkeypatch.setattr(cluster, "_judge_here", look)
    dossiers = [Dossier(name, "week01_collectives", {}, [], True) for name in ("ada", "bob")]
    found = []
    for one, result in cluster.judge_all(dossiers, 1, workers=1):
        found.append((one.student, result))
        assert not [key for key in default_client().futures if "ada" in str(key) or "week01" in str(key)]
    assert sorted(found) == [("ada", "ada"), ("bob", "bob")]
    assert seen == dict.fromkeys(PATHS, "404")


@pytest.mark.parametrize("name", ["root", "daemon", "nobody"])
def test_an_account_of_the_system_is_no_students(name, tmp_path):
    with pytest.raises(ValueError, match="is a system account: choose another name"):
        accounts.account(name, tmp_path)


@pytest.mark.parametrize("name", ["../x", "", "-x", "Ada", "a b", "a" * 32, "x\n", "x:y"])
def test_a_name_that_linux_would_not_take(name, tmp_path):
    with pytest.raises(ValueError, match="cannot be an account name"):
        accounts.account(name, tmp_path)


def test_numbers_of_students_are_those_of_their_homes_and_no_others(tmp_path):
    assert accounts._free_number(tmp_path) >= accounts.FIRST
    (tmp_path / "ada").mkdir()
    owner = (tmp_path / "ada").stat().st_uid
    assert accounts._free_number(tmp_path) != owner
