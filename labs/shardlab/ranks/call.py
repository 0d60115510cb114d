"""The data sent between a notebook, its warm worker and the ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

OUTPUT_LIMIT = 64 * 1024  # how many bytes of a rank's prints are shown; the rest is read and dropped


@dataclass(frozen=True)
class RankCall:
    """One function to run on every rank. `payload` holds (function, args, source lines) as cloudpickle bytes."""

    payload: bytes
    num_ranks: int
    timeout: float
    transport: str
    observe: bool
    environment: dict[str, str] = field(default_factory=dict)  # variables that the transport needs


@dataclass
class RankEnd:
    """How one rank ended: its pickled result, or the text of its exception, and its exit code if it died.

    The last three fields describe a rank that the supervisor stopped: its stacks, whether it was idle, bytes printed.
    """

    result: bytes | None = None
    error: str | None = None
    exit_code: int | None = None
    stack: str = ""
    idle: bool = False
    printed: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the rank returned a result."""
        return self.result is not None


@dataclass
class Outcome:
    """How a call ended, on every rank."""

    ends: list[RankEnd]
    seconds: float
    timed_out: bool = False
    cancelled: bool = False
    stalled: bool = False
    report: str | None = None
    notes: list[str] = field(default_factory=list)  # warnings, also shown when the call succeeded
    ledgers: list = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether every rank returned a result and every message was received as it was sent."""
        return self.report is None and all(end.is_right for end in self.ends)


def validate(num_ranks: int, timeout: float, available_bytes: int, open_files: int) -> None:
    """Raise ValueError for values that cannot work; the message names values that would.

    A forked rank takes about 80 MB of private memory, and a dozen open files in the process that supervises it.
    """
    if open_files < 0:  # no limit
        open_files = 1 << 20
    most = max(1, min(available_bytes // (80 * 2**20), open_files // 12))
    if isinstance(num_ranks, bool) or not isinstance(num_ranks, int) or num_ranks < 1:
        raise ValueError(f"ranks={num_ranks!r}: give a whole number of ranks from 1 to {most}")
    if num_ranks > most:
        raise ValueError(
            f"ranks={num_ranks} is more than this machine can hold: its free memory and open-file limit allow {most}"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 3600:
        raise ValueError(f"timeout={timeout!r}: give the seconds a call may take, more than 0 and at most 3600")
