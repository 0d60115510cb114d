"""The trusted side of level 2: one container per submission, through the command line of podman or docker.

It is for hosts that do not allow user namespaces. The image is empty, built here and never downloaded; everything that
the container shows is mounted read-only from this machine. It has no network, no privileges and no host user.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from contextlib import suppress

from autograder.jobs import confine, contained, places
from autograder.sandboxes.cgroups import MOST_MEMORY, MOST_TASKS
from autograder.sandboxes.surroundings import HOSTS, environment, links, mounts

# crun, podman's default, refuses machines that mix control groups of both versions
ENGINES = (("podman",), ("podman", "--runtime", "runc"), ("docker",))
START_LIMIT = 60.0  # seconds for one engine command
FIRST_USER, NUM_USERS = 60_578, 606  # user ids that systemd leaves unassigned
EMPTY_FOLDER = "rw,noexec,nosuid,nodev,mode=1777,size=64m"
_numbers = itertools.count(os.getpid())


class Container:
    """One container that runs `command` with pipes as standard input and output; `end` removes all of it."""

    def __init__(self, command: Sequence[str]) -> None:
        engine = found()
        if engine is None:
            raise OSError(f"no container engine works here: {why_not()}")
        self._engine = engine
        self.name = f"sys602-{os.getpid()}-{secrets.token_hex(4)}"
        self.process = subprocess.Popen(
            run_command(engine, self.name, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )

    def end(self) -> None:
        """Kill every process in the container, and wait until the engine has removed it."""
        for words in (("kill", self.name), ("rm", "--force", self.name)):
            with suppress(subprocess.TimeoutExpired):
                _engine(self._engine, *words)
                self.process.wait(START_LIMIT / 4)
                break
        self.process.kill()
        self.process.wait()

    def processes(self) -> list[str]:
        """The commands that run in the container, its first process first."""
        listed = _engine(self._engine, "top", self.name, "-eo", "pid,args").stdout.decode(errors="replace")
        return listed.splitlines()[1:]


def run_command(engine: Sequence[str], name: str, command: Sequence[str]) -> list[str]:
    """The whole command line of one container."""
    number = str(FIRST_USER + next(_numbers) % NUM_USERS)
    folders = [f"{contained.FOLDERS}/{rank}" for rank in range(contained.MOST_RANKS)]
    return [
        *engine,
        *("run", "--rm", "--interactive", "--name", name, "--hostname", "sandbox"),
        *("--pull", "never", "--log-driver", "none", "--user", f"{number}:{number}"),
        *("--network", "none", "--ipc", "private", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--pids-limit", str(MOST_TASKS)),
        *("--memory", str(MOST_MEMORY), "--memory-swap", str(MOST_MEMORY)),
        *(word for limit in _limits() for word in ("--ulimit", limit)),
        *(word for folder in ("/tmp", "/dev/shm", *folders) for word in ("--tmpfs", f"{folder}:{EMPTY_FOLDER}")),
        *("--tmpfs", "/sys:ro,size=4k"),  # ranks must not see the kernel's loopback counters
        *(("--read-only-tmpfs=false",) if engine[0] == "podman" else ()),
        *(word for path, is_shown in mounts().items() for word in _mounted(path, is_shown, engine)),
        *("--mount", _bound(str(HOSTS), "/etc/hosts")),
        *("--workdir", "/tmp", _image()),
        *("/usr/bin/env", "-i", *(f"{key}={value}" for key, value in environment().items())),  # no other variables
        *command,
    ]


@functools.cache
def found() -> tuple[str, ...] | None:
    """The first engine that can confine a submission here, determined by trying each once; None if none can."""
    return next((engine for engine in ENGINES if _problem(engine) is None), None)


def why_not() -> str:
    """Say why each installed engine does not work."""
    installed = {" ".join(engine): _problem(engine) for engine in ENGINES if shutil.which(engine[0])}
    problems = [f"{engine}: {problem}" for engine, problem in installed.items() if problem is not None]
    return "; ".join(problems) or "neither podman nor docker is installed"


@functools.cache
def _problem(engine: tuple[str, ...]) -> str | None:
    """The error of an engine when it runs a container that confines a rank; None if it works."""
    if sys.platform != "linux" or any(shutil.which(word) is None for word in engine if not word.startswith("-")):
        return "not installed"
    probe = "import sys; from autograder.jobs import contained; sys.exit(0 if contained.holds() else 1)"
    name = f"sys602-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        _make_image(engine)
        command = run_command(engine, name, [places.program(), "-c", probe])
        answer = subprocess.run(command, capture_output=True, timeout=START_LIMIT, check=False, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = answer.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return None if answer.returncode == 0 else said or "it cannot confine a rank"


def _limits() -> list[str]:
    """The limits of one process in the container, capped at this user's own limits."""
    files = confine.at_most(resource.RLIMIT_NOFILE, 512)
    processes = confine.at_most(resource.RLIMIT_NPROC, MOST_TASKS)
    return [f"nofile={files}:{files}", f"nproc={processes}:{processes}", "core=0:0"]


def _mounted(path: str, is_shown: bool, engine: Sequence[str]) -> tuple[str, str]:
    if is_shown:
        return "--mount", _bound(path, path)
    empty = ",notmpcopyup" if engine[0] == "podman" else ""  # podman would copy the covered folder into it
    return "--tmpfs", f"{path}:ro,size=64k{empty}"


def _bound(source: str, target: str) -> str:
    if "," in source or '"' in source:
        raise OSError(f"a container cannot mount {source}, because its name contains a comma or a quote")
    return f"type=bind,source={source},target={target},readonly"


def _engine(engine: Sequence[str], *words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*engine, *words], input=given, capture_output=True, timeout=START_LIMIT, check=False)


def _make_image(engine: Sequence[str]) -> None:
    if _engine(engine, "image", "inspect", _image()).returncode != 0:
        made = _engine(engine, "import", "-", _image(), given=_empty_root())
        if made.returncode != 0:
            raise OSError(made.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1])


def _image() -> str:
    return f"localhost/sys602-sandbox:{hashlib.sha256(_empty_root()).hexdigest()[:12]}"


@functools.cache
def _empty_root() -> bytes:
    """The image's files: only mount points and links such as /bin. The bytes are the same each time."""
    ranks = [f"ranks/{rank}" for rank in range(contained.MOST_RANKS)]
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, mode in {"tmp": 0o1777, "ranks": 0o755, **dict.fromkeys(ranks, 0o1777)}.items():
            tar.addfile(_entry(name, tarfile.DIRTYPE, mode))
        for path, target in links().items():
            link = _entry(path.lstrip("/"), tarfile.SYMTYPE, 0o777)
            link.linkname = target
            tar.addfile(link)
    return data.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry
