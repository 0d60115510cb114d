"""The trusted end of the sandbox: start zygotes, send them requests, read their answers, end them."""

from __future__ import annotations

import functools
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import shardlab

import autograder
from autograder.cgroups import ControlGroup
from autograder.jobs import plain

_LENGTH = struct.Struct("<Q")
START_LIMIT = 120.0  # seconds: the zygote imports torch
MOST_ANSWER = 1 << 30
JOB_SLACK = 30.0  # seconds that an answer may take beyond the ranks' own limit

LEVELS = {
    3: "bubblewrap and a namespace per job: own network, processes, files; no privileges",
    2: "one container per submission",
    1: "limits only: this system allows no namespaces; good for self-checks, not for grades",
}


OFFICIAL = 2  # the lowest level at which a grade may be written into the gradebook


class SandboxLost(RuntimeError):
    """The zygote died or does not answer: a fault of the machine, not of the submission."""


@functools.cache
def level() -> int:
    """The level of isolation that this machine allows, found by trying it once."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return 1
    probe = "import sys; from autograder.jobs import confine; sys.exit(0 if confine.holds() else 1)"
    try:
        answer = subprocess.run(
            [*_bubblewrap(), sys.executable, "-c", probe],
            capture_output=True,
            timeout=60,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 1
    return 3 if answer.returncode == 0 else 1


class Zygote:
    """One program with torch imported that forks a confined job a request. Use as a context, or `close` it."""

    def __init__(self) -> None:
        self.level = level()
        confined = self.level >= 3
        wrapper = _bubblewrap() if confined else []
        flags = ["--confined"] if confined else []
        self._group = ControlGroup()
        self._process = subprocess.Popen(
            [*self._group.wrapper(), *wrapper, sys.executable, "-m", "autograder.jobs.zygote", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one job and return its answer, decoded; SandboxLost if the zygote dies or stays silent.

        The answer to be judged and each rank's input travel apart, because the zygote must not read them.
        """
        assert self._process.stdin is not None
        parts = [plain.encode(request["answer"]), *map(plain.encode, request["inputs"])]
        rest = {name: value for name, value in request.items() if name not in ("answer", "inputs")}
        head = plain.encode(rest | {"parts": len(parts)})
        message = b"".join(_LENGTH.pack(len(data)) + data for data in (head, *parts))
        deadline = time.monotonic() + request["timeout"] + JOB_SLACK + START_LIMIT
        try:
            view = memoryview(message)
            while view:
                view = view[self._process.stdin.write(view) :]
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
            if length > MOST_ANSWER:
                raise plain.NotPlain(f"an answer of {length:,} bytes")
            answer = plain.decode(self._read(length, deadline))
        except (OSError, plain.NotPlain) as error:
            self.close()
            raise SandboxLost(f"the sandbox gave no usable answer: {error}") from error
        if "lost" in answer:
            raise SandboxLost(answer["lost"])
        return answer

    def _read(self, length: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        data = bytearray()
        while len(data) < length:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._process.stdout.fileno(), min(1 << 20, length - len(data))) if ready else b""
            if not part:
                self.close()
                raise SandboxLost("the sandbox ended" if ready else "the sandbox does not answer")
            data += part
        return bytes(data)

    @property
    def pid(self) -> int:
        """The process that was started: bubblewrap where it exists, else the zygote itself."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the zygote still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the zygote and everything it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.kill()
        self._process.wait()
        self._group.close()


def _environment() -> dict[str, str]:
    """No variable of ours reaches the sandbox but what Python needs."""
    paths = [str(Path(str(shardlab.__file__)).parents[1]), str(Path(str(autograder.__file__)).parents[1])]
    return {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "MPLBACKEND": "Agg",
    }


def _bubblewrap() -> list[str]:
    """Read-only system files, Python, shardlab and the jobs; nothing else of this project or of the host."""
    ours = Path(str(autograder.__file__)).parent
    pythons = dict.fromkeys(str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    return [
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *(word for name, value in _environment().items() for word in ("--setenv", name, value)),
        *("--ro-bind", "/usr", "/usr"),
        *(word for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32") for word in _system_folder(name)),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--ro-bind", _hosts_file(), "/etc/hosts"),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(word for folder in pythons if not folder.startswith("/usr/") for word in ("--ro-bind", folder, folder)),
        *("--ro-bind", str(Path(str(shardlab.__file__)).parent), str(Path(str(shardlab.__file__)).parent)),
        *("--ro-bind", str(ours / "__init__.py"), str(ours / "__init__.py")),
        *("--ro-bind", str(ours / "jobs"), str(ours / "jobs")),
        *("--remount-ro", "/dev", "--remount-ro", "/"),  # else what a job writes there meets those who come after it
        *("--chdir", "/tmp", "--"),
    ]


def _system_folder(name: str) -> list[str]:
    """/lib and its like: links into /usr on today's systems, folders on older ones."""
    path = Path("/", name)
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


@functools.cache
def _hosts_file() -> str:
    """A hosts file with the loopback alone, kept for the life of this process."""
    import atexit

    descriptor, path = tempfile.mkstemp(prefix="sys602-hosts-")
    with os.fdopen(descriptor, "w") as file:
        file.write("127.0.0.1 localhost\n")
    os.chmod(path, 0o644)
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    return path
