"""Level 2, the trusted end: one container per submission, by the command line of podman or docker.

For hosts that let nobody make user namespaces. The image is empty, made here and never fetched; what the container
shows is mounted from this machine, for reading alone. There is no network, no privilege, no user of the host's.
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

# crun, podman's first choice, refuses machines with control groups of both versions
ENGINES = (("podman",), ("podman", "--runtime", "runc"), ("docker",))
START_LIMIT = 60.0  # seconds for one command of an engine
FIRST_USER, NUM_USERS = 60_578, 606  # numbers that systemd's list of users leaves to nobody
EMPTY_FOLDER = "rw,noexec,nosuid,nodev,mode=1777,size=64m"
_numbers = itertools.count(os.getpid())


class Container:
    """One container that runs `command` with its standard input and output as pipes; `end` leaves nothing of it."""

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
        """Kill everything in the container, and wait until the engine has removed it."""
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
        *("--tmpfs", "/sys:ro,size=4k"),  # the kernel's counters of the loopback are for the supervisor
        *(("--read-only-tmpfs=false",) if engine[0] == "podman" else ()),
        *(word for path, is_shown in mounts().items() for word in _mounted(path, is_shown, engine)),
        *("--mount", _bound(str(HOSTS), "/etc/hosts")),
        *("--workdir", "/tmp", _image()),
        *("/usr/bin/env", "-i", *(f"{key}={value}" for key, value in environment().items())),  # and no variable more
        *command,
    ]


@functools.cache
def found() -> tuple[str, ...] | None:
    """The engine that can confine a submission here, found by trying it once; None if there is none."""
    return next((engine for engine in ENGINES if _problem(engine) is None), None)


def why_not() -> str:
    """One sentence on each engine that is installed and does not work."""
    installed = {" ".join(engine): _problem(engine) for engine in ENGINES if shutil.which(engine[0])}
    problems = [f"{engine}: {problem}" for engine, problem in installed.items() if problem is not None]
    return "; ".join(problems) or "neither podman nor docker is installed"


@functools.cache
def _problem(engine: tuple[str, ...]) -> str | None:
    """What an engine says when it is to run a container that shuts a rank in; None if all is well."""
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
    return None if answer.returncode == 0 else said or "a rank cannot be shut in there"


def _limits() -> list[str]:
    """What one process of the container may have, no more than this user may give."""
    files = confine.at_most(resource.RLIMIT_NOFILE, 512)
    processes = confine.at_most(resource.RLIMIT_NPROC, MOST_TASKS)
    return [f"nofile={files}:{files}", f"nproc={processes}:{processes}", "core=0:0"]


def _mounted(path: str, is_shown: bool, engine: Sequence[str]) -> tuple[str, str]:
    if is_shown:
        return "--mount", _bound(path, path)
    empty = ",notmpcopyup" if engine[0] == "podman" else ""  # podman would fill it with what it covers
    return "--tmpfs", f"{path}:ro,size=64k{empty}"


def _bound(source: str, target: str) -> str:
    if "," in source or '"' in source:
        raise OSError(f"{source} has a comma or a quote in its name, and a container cannot show it")
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
    """An image's files: folders to mount on, the links of /bin and its like, nothing else. The same bytes each time."""
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
