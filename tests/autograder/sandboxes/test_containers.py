""""""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator

import pytest

from autograder import demo
from autograder.checks import packets
from autograder.grading import grade
from autograder.judging.judge import Judge, JudgePool
from autograder.sandboxes import bubblewrap, containers, surroundings, zygote

# ---- Level 2: a container's command line, how its traffic is counted, and whole submissions if an engine works. ------

CHEAT = {"week01.exchange": "import sys\n\ndef exchange(tensor, *, group):\n    sys.displayhook('x')\n"}


def command(*engine: str) -> list[str]:
    return containers.run_command(engine or ("docker",), "a-name", ["/usr/bin/python3", "-c", "pass"])


def test_the_container_has_no_network_no_privilege_and_no_user_of_the_host():
    line = " ".join(command())
    for words in (
        "run --rm --interactive --name a-name",
        "--network none",
        "--read-only ",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pids-limit 400",
        "--memory 6442450944 --memory-swap 6442450944",
        "--ipc private",
        "--pull never",
        "--tmpfs /tmp:rw,noexec,nosuid,nodev",
        "--tmpfs /dev/shm:rw,noexec,nosuid,nodev",
    ):
        assert words in line
    user = int(line.split("--user ")[1].split(":")[0])
    assert user in range(containers.FIRST_USER, containers.FIRST_USER + containers.NUM_USERS)
    for word in ("--privileged", "--cap-add", "--init", "--volume", "docker.sock"):
        assert word not in line


def test_it_shows_what_bubblewrap_shows_and_can_write_none_of_it():
    mounts = [word for word in command() if word.startswith("type=bind")]
    assert all(word.endswith(",readonly") for word in mounts)
    sources = [word.split("source=")[1].split(",")[0] for word in mounts]
    assert sources[:-1] == list(surroundings.mounts()) and mounts[-1].endswith("target=/etc/hosts,readonly")
    words = bubblewrap.command()
    bound = [words[place + 1] for place, word in enumerate(words) if word == "--ro-bind"]
    assert bound == sources


def test_no_variable_of_ours_travels(monkeypatch):
    monkeypatch.setenv("SYS602_SECRET", "a-secret")
    line = command()
    place = line.index("/usr/bin/env")
    assert line[place + 1] == "-i" and "a-secret" not in " ".join(line)
    assert line[place + 2 : -3] == [f"{name}={value}" for name, value in zygote.environment().items()]


def test_only_podman_is_told_to_keep_its_own_folders_away():
    assert "--read-only-tmpfs=false" in command("podman") and "--read-only-tmpfs=false" not in command("docker")


def test_two_containers_at_a_time_have_two_users():
    users = {command()[command().index("--user") + 1] for _ in range(5)}
    assert len(users) == 5


def test_a_folder_that_no_option_can_name_is_refused(monkeypatch):
    monkeypatch.setattr(containers, "mounts", lambda: {"/usr": True, "/opt/a,readonly=false": True})
    with pytest.raises(OSError, match="comma"):
        command()


def test_the_image_holds_folders_and_links_alone():
    with tarfile.open(fileobj=io.BytesIO(containers._empty_root())) as tar:
        members = tar.getmembers()
    assert all(one.isdir() or one.issym() for one in members)
    assert {one.name for one in members if one.isdir()} == {"tmp", "ranks", *(f"ranks/{rank}" for rank in range(16))}


@pytest.mark.parametrize(
    ("wanted", "namespaces", "engine", "level"),
    [
        (None, True, ("podman",), 3),
        (None, False, ("podman",), 2),
        (None, False, None, 1),
        ("2", True, ("podman",), 2),
        ("2", True, None, 1),
        ("1", True, ("podman",), 1),
        ("3", False, None, 1),
    ],
)
def test_the_level_may_be_lowered_and_not_raised(monkeypatch, wanted, namespaces, engine, level):
    monkeypatch.delenv("AUTOGRADER_LEVEL", raising=False)
    if wanted is not None:
        monkeypatch.setenv("AUTOGRADER_LEVEL", wanted)
    monkeypatch.setattr(bubblewrap, "problem", lambda: None if namespaces else "no user namespaces")
    monkeypatch.setattr(containers, "found", lambda: engine)
    assert zygote.level.__wrapped__() == level


def test_a_level_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("AUTOGRADER_LEVEL", "4")
    with pytest.raises(ValueError, match="use 1, 2 or 3"):
        zygote.level.__wrapped__()


@pytest.mark.parametrize(
    ("sent", "claims", "words"),
    [
        ([16 + 3 * 48, 16 + 3 * 48], [[16], [16]], None),
        ([66 + 3 * 48, 16 + 3 * 48], [[16], [16]], "Rank 0 reports 16 B sent in 1 message, but 210 B"),
        ([64 + 3 * 48, 16 + 3 * 48], [[16], [16]], "The ranks report 2 messages"),  # as long as one more header
        ([64 + 3 * 48, 16 + 3 * 48], [[0], [16]], "Rank 0 reports 0 B"),
        ([10 + 3 * 48, 16 + 3 * 48], [[16], [16]], "Rank 0 reports 16 B"),
        ([16 + 4 * 48, 16 + 3 * 48], [[16], [16]], "The ranks report 2 messages"),
        ([], [[16], [16]], "Rank 0 reports 16 B"),
    ],
)
def test_what_connections_carried_is_held_against_claims(sent, claims, words):
    rows = [[rank, 1 - rank, packets.COUNTED, 0, num_bytes] for rank, num_bytes in enumerate(sent)]
    rows = rows or [[0, 1, packets.COUNTED, 0, 0]]
    bills = [[packets.ObservedCall("send", [0, 1], None, num, num) for num in claim] for claim in claims]
    found = packets.other_than_billed(rows, bills, only_messages=True)
    assert (found is None) == (words is None) and (words or "") in (found or "")


def test_headers_are_no_bytes_that_crossed():
    headers = packets.MOST_HEADERS
    rows = [[0, 1, packets.COUNTED, 0, 9000], [0, 2, packets.COUNTED, 0, headers + 70], [1, 3, packets.COUNTED, 0, 60]]
    assert [packets.crossed(rows, rank, 2) for rank in (0, 1)] == [70, 0]


@pytest.fixture(scope="module")
def level_2() -> Iterator[None]:
    """Make this process grade at level 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_LEVEL", "2")
        zygote.level.cache_clear()
        yield
    zygote.level.cache_clear()


@pytest.mark.slow
@pytest.mark.isolated(2)
def test_two_submissions_are_judged_in_two_containers(level_2, tmp_path):
    students = {"honest": {}, "cheat": CHEAT}
    for student, answers in students.items():
        demo.write_submission(tmp_path, student, answers)
    results, users = [], []

    def work(judge: Judge, student: str) -> None:
        results.append(grade.grade_one(student, demo.WEEK, tmp_path, judge, seed=7))
        assert judge.zygote is not None and judge.zygote.container is not None
        users.append(judge.zygote.container.name)

    with JudgePool(1) as pool:
        list(pool.map(work, list(students)))
    assert [one["level"] for one in results] == [2, 2]
    assert [sum(e["points"] for e in one["exercises"].values()) for one in results] == [demo.POINTS, demo.POINTS - 2]
    assert results[1]["exercises"]["week01.exchange"]["points"] == 0
    assert len(set(users)) == 2 and not set(users) & names_of_containers()


@pytest.mark.slow
@pytest.mark.isolated(2)
def test_a_container_ends_with_the_program_that_started_it(level_2):
    program = "from autograder.sandboxes.zygote import Zygote; print(Zygote().container.name, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as grader:
        assert grader.stdout is not None
        name = grader.stdout.readline().decode().strip()
        deadline = time.monotonic() + 60
        while name not in names_of_containers() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(grader.pid, signal.SIGKILL)
    while name in names_of_containers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert name and name not in names_of_containers()


WITHOUT_USER_NAMESPACES = """
import ctypes, os, struct
from autograder.sandboxes import bubblewrap
from autograder.sandboxes import zygote
from autograder.jobs import bpf, syscalls as calls

column, machine = calls._MACHINES[os.uname().machine]
code = [bpf.do(bpf.LOAD, bpf.NUMBER_AT)]
code += [bpf.do(bpf.EQUAL, calls._CLONE3[column], 0, 1), bpf.do(bpf.RETURN, bpf.ERROR | bpf.ENOSYS)]
for call in (calls.REFUSED["unshare"], calls._CLONE):
    decision = [bpf.do(bpf.ANY_BIT, 0x10000000, 0, 1), bpf.do(bpf.RETURN, bpf.ERROR | bpf.EPERM)]
    decision = [bpf.do(bpf.LOAD, bpf.FIRST_AT), *decision, bpf.do(bpf.RETURN, bpf.ALLOW)]
    code += [bpf.do(bpf.EQUAL, call[column], 0, len(decision)), *decision]
kept = ctypes.create_string_buffer(b"".join([*code, bpf.do(bpf.RETURN, bpf.ALLOW)]))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) + 1, ctypes.addressof(kept)))
assert ctypes.CDLL(None).syscall(calls._SECCOMP[column], 1, 1, program) == 0
print(bubblewrap.problem() is None, zygote.level())
"""


@pytest.mark.isolated(2)
@pytest.mark.skipif(os.getuid() != 0, reason="only root may take user namespaces away and start containers after it")
@pytest.mark.slow
def test_where_nobody_makes_user_namespaces_the_level_is_2():
    environment = {name: value for name, value in os.environ.items() if name != "AUTOGRADER_LEVEL"}
    words = [sys.executable, "-c", WITHOUT_USER_NAMESPACES]
    answer = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert answer.stdout.split() == ["False", "2"], answer.stderr


def names_of_containers() -> set[str]:
    engine = containers.found()
    assert engine is not None
    listed = subprocess.run([*engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, check=True)
    return set(listed.stdout.decode().split())
