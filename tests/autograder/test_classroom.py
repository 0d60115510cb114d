"""compose.yaml says what docs/classroom.md promises; accounts of students are never the system's."""

import re
from pathlib import Path

import pytest
import yaml

from autograder.classroom import accounts

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text()
SERVICES = yaml.safe_load(TEXT)["services"]
VOLUMES = {name: dict(one.split(":")[:2] for one in service.get("volumes", [])) for name, service in SERVICES.items()}


def test_only_the_hub_can_be_reached_and_by_this_machine_alone():
    assert [name for name, one in SERVICES.items() if "ports" in one] == ["hub"]
    assert SERVICES["hub"]["ports"] == ["${HUB_ADDRESS:-127.0.0.1}:${HUB_PORT:-8000}:8000"]
    networks = yaml.safe_load(TEXT)["networks"]
    inside = {name for name, one in networks.items() if one.get("internal")}
    assert all(set(one["networks"]) <= inside for name, one in SERVICES.items() if name != "hub")


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
    for name in ("hub", "scheduler", "worker"):
        keys = SERVICES[name]["environment"]
        assert keys["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
        roles = {"SCHEDULER", "WORKER", "CLIENT"}
        assert all(keys[f"DASK_DISTRIBUTED__COMM__TLS__{role}__{kind}"] for role in roles for kind in ("CERT", "KEY"))
    assert "--protocol tls" in (ROOT / "autograder/classroom/scheduler.sh").read_text()


@pytest.mark.parametrize("name", ["root", "daemon", "nobody"])
def test_an_account_of_the_system_is_no_students(name, tmp_path):
    with pytest.raises(ValueError, match="is an account of the system: choose another name"):
        accounts.account(name, tmp_path)


@pytest.mark.parametrize("name", ["../x", "", "-x", "Ada", "a b", "a" * 32, "x\n", "x:y"])
def test_a_name_that_linux_would_not_take(name, tmp_path):
    with pytest.raises(ValueError, match="cannot be an account"):
        accounts.account(name, tmp_path)


def test_numbers_of_students_are_those_of_their_homes_and_no_others(tmp_path):
    assert accounts._free_number(tmp_path) >= accounts.FIRST
    (tmp_path / "ada").mkdir()
    owner = (tmp_path / "ada").stat().st_uid
    assert accounts._free_number(tmp_path) != owner
