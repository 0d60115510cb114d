"""The trusted side of the sandbox: start zygotes, send them jobs, read their reports, end them."""

from __future__ import annotations

import functools
import os
import select
import struct
import subprocess
import sys
import time

from autograder.jobs import message, places, plain
from autograder.jobs.loading import MOST_SECONDS
from autograder.jobs.message import Job, Report
from autograder.sandboxes import bubblewrap, containers
from autograder.sandboxes.cgroups import ControlGroup
from autograder.sandboxes.surroundings import environment

_LENGTH = struct.Struct("<Q")
START_LIMIT = 120.0  # seconds: the zygote imports torch
MOST_ANSWER = 1 << 30
JOB_SLACK = 30.0  # seconds that a reply may take beyond the ranks' own limit

LEVELS = {
    3: "bubblewrap and separate namespaces per job: private network, processes, files; no privileges",
    2: "one container per submission, ranks confined by landlock and a system-call filter; no privileges",
    1: "resource limits only, no namespaces or containers; good for self-checks, not for grades",
}


OFFICIAL = 2  # the lowest level at which grades may be written into the gradebook


class SandboxLost(RuntimeError):
    """The zygote died or does not reply: a machine fault, not the submission's."""


@functools.cache
def level() -> int:
    """The isolation level that this machine supports, determined by trying it once; AUTOGRADER_LEVEL may lower it."""
    wanted = os.environ.get("AUTOGRADER_LEVEL", "3")
    if wanted not in ("1", "2", "3"):
        raise ValueError(f"AUTOGRADER_LEVEL={wanted!r}: use 1, 2 or 3")
    if wanted == "3" and why_not(3) is None:
        return 3
    return 2 if wanted != "1" and why_not(2) is None else 1


def why_not(wanted: int) -> str | None:
    """Why submissions cannot be confined here at level 3 or 2, determined by trying it once; None if they can."""
    if wanted == 3:
        return bubblewrap.problem()
    return None if containers.found() is not None else containers.why_not()


def missing() -> str:
    """Each of levels 3 and 2 that does not work here, with the reason."""
    reasons = {number: why_not(number) for number in (3, 2)}
    return "; ".join(f"no level {number}: {reason}" for number, reason in reasons.items() if reason is not None)


class Zygote:
    """A process with torch imported that forks one confined job per request. Use it in `with`, or `close` it."""

    def __init__(self) -> None:
        self.level = level()
        program = [
            places.program() if self.level > 1 else sys.executable,
            "-m",
            "autograder.jobs.zygote",
            str(self.level),
        ]
        self._group: ControlGroup | None = None
        self.container: containers.Container | None = None
        if self.level == 2:
            self.container = containers.Container(program)
            self._process = self.container.process
            return
        self._group = ControlGroup()
        self._process = subprocess.Popen(
            [*self._group.wrapper(), *(bubblewrap.command() if self.level == 3 else ()), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, job: Job) -> Report:
        """Run one job and return its report; raises SandboxLost if the zygote dies or does not reply.

        The student's answer, each rank's input and the keys are sent separately, because the zygote must not read them.
        """
        assert self._process.stdin is not None
        parts = job.parcels()
        head = message.encode(job.request)
        data = [_LENGTH.pack(len(head)), head, _LENGTH.pack(len(parts))]
        data += [piece for part in parts for piece in (_LENGTH.pack(len(part)), part)]
        deadline = time.monotonic() + job.request.timeout + MOST_SECONDS + JOB_SLACK + START_LIMIT
        try:
            view = memoryview(b"".join(data))
            while view:
                view = view[self._process.stdin.write(view) :]
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
            if length > MOST_ANSWER:
                raise plain.NotPlain(f"a reply of {length:,} bytes")
            report = message.decode(Report, self._read(length, deadline))
        except (OSError, plain.NotPlain) as error:
            self.close()
            raise SandboxLost(f"the sandbox gave no usable reply: {error}") from error
        if report.lost:
            raise SandboxLost(report.lost)
        return report

    def _read(self, length: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        data = bytearray()
        while len(data) < length:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._process.stdout.fileno(), min(1 << 20, length - len(data))) if ready else b""
            if not part:
                self.close()
                raise SandboxLost("the sandbox ended" if ready else "the sandbox does not reply")
            data += part
        return bytes(data)

    @property
    def pid(self) -> int:
        """The process that was started: bubblewrap or the container engine if used, else the zygote itself."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the zygote is still running."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the zygote and everything it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if self.container is not None:
            self.container.end()
        self._process.kill()
        self._process.wait()
        if self._group is not None:
            self._group.close()
