"""System calls that no answer needs and that reach other processes, the kernel, or an uncounted channel.

A kernel filter (seccomp) refuses them in every thread of a rank. It is active before the first line of student code.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence

from shardlab.ranks.libc import libc

from autograder.jobs import mapped
from autograder.jobs.bpf import (
    ALLOW,
    AND,
    ANY_BIT,
    AT_LEAST,
    EAGAIN,
    ENOSYS,
    EPERM,
    EQUAL,
    ERROR,
    FIRST_AT,
    KILL,
    LOAD,
    MACHINE_AT,
    NUMBER_AT,
    RETURN,
    do,
)

# name: (x86-64, aarch64); None if the machine has no such call
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),  # it reveals when another process ends
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # other views of the system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "syslog": (103, 116),
    "personality": (135, 92),
    # ways to pass data between ranks without a message
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "io_setup": (206, 0),  # the machine has a limited number of events
    "timer_create": (222, 107),  # a user has a limited number of signals
    "sysinfo": (99, 179),  # free memory, the number of processes
    "futex_waitv": (449, 449),
    "futex_wake": (454, 454),
    "futex_wait": (455, 455),
    "futex_requeue": (456, 456),
    "set_tid_address": (218, 96),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "ioprio_get": (252, 31),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "fadvise64": (221, 223),
    "mincore": (27, 232),
    "preadv2": (327, 286),
    "cachestat": (451, 451),
    # memory that no file limit counts
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
}
NETWORK: dict[str, tuple[int | None, int | None]] = {
    "flock": (73, 32),  # a file lock passes one bit; jobs that may create groups need it for their store
    "socket": (41, 198),
    "bind": (49, 200),
    "listen": (50, 201),
    "connect": (42, 203),
    "socketpair": (53, 199),
    "setsockopt": (54, 208),
    "getsockopt": (55, 209),  # reveals how far the peer has read
    "shutdown": (48, 210),
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
}
# in a container the ranks share file systems and a user: these inspect files without opening them, or signal others
IN_A_CONTAINER: dict[str, tuple[int | None, int | None]] = {"statfs": (137, 43), "fstatfs": (138, 44)}
SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131)}
CLOCKS = {  # a clock with a negative number is the CPU time of another process
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
}
# calls that inspect a process, allowed only for the caller itself: name: (x86-64, aarch64), arguments that must be 0
ABOUT_ONESELF = {
    "prlimit64": ((302, 261), (0,)),
    "sched_setaffinity": ((203, 122), (0,)),
    "sched_getaffinity": ((204, 123), (0,)),
    "sched_getattr": ((315, 275), (0,)),
    "sched_getparam": ((143, 121), (0,)),
    "sched_getscheduler": ((145, 120), (0,)),
    "sched_rr_get_interval": ((148, 127), (0,)),
    "getpgid": ((121, 155), (0,)),
    "getsid": ((124, 156), (0,)),
    "getpriority": ((140, 141), (0, 1)),
    "setpriority": ((141, 140), (0, 1)),
}
# if memory is measured: calls that start a process, reset the peak with a new program, or hide pages from the count
WHERE_MEMORY_COUNTS: dict[str, tuple[int | None, int | None]] = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "process_madvise": (440, 440),
    "remap_file_pages": (216, 234),
}
_FAMILIES = (1, 2, 10, 16)  # sockets that belong to a network namespace: unix, IPv4, IPv6, netlink
_CLONE, _CLONE3, _FCNTL, _SECCOMP = (56, 220), (435, 435), (72, 25), (317, 277)
_FUTEX, _FUTEX_WAITS, _FUTEX_PRIVATE = (202, 98), (0, 9), 0x80  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_NEW_NAMESPACES = 0x7E020000
_A_THREAD = 0x10000  # CLONE_THREAD
AMONG_RANKS = {"pipe": (22, None), "pipe2": (293, 59)}  # a user has a limited number: ranks could use it up
_LARGER_PIPE = 1031  # F_SETPIPE_SZ: a user's pipe memory is limited
_HINTS = (1036, 1038)  # F_SET_RW_HINT, F_SET_FILE_RW_HINT: shared by all processes that have the file open
_LOCKS = (6, 7, 37, 38, 1024, 1026)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY
_SIGNALS_OF_FILES = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: a ready file can signal any process
_IOCTL, _OWNERS_OF_SOCKETS = (16, 29), (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: the same for a connection
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, the kernel's name of the machine


def refuse(
    *,
    network: bool,
    contained: bool = False,
    memory: bool = False,
    alone: bool = False,
    replaced: mapped.Replaced | None = None,
) -> bool:
    """Refuse the calls above in all threads of this process. Drop privileges first.

    `network` also refuses the calls that open sockets.
    `alone` means that the job has no other rank, so pipes are harmless and may be used to start programs.
    `contained` adds calls that are unsafe without private namespaces; signals can then only reach this process.
    `memory` adds calls that hide memory from this process's count (`mapped`); it can then start only threads.
    `replaced` are pages that the rank itself maps again.

    Returns False if the system has no such filter. The filter is permanent and is inherited by children.
    """
    machine = _MACHINES.get(os.uname().machine)
    if sys.platform != "linux" or machine is None:
        return False
    own = (
        [NETWORK] * network
        + [IN_A_CONTAINER] * contained
        + [WHERE_MEMORY_COUNTS] * memory
        + [AMONG_RANKS] * (network and not alone)
    )
    code = b"".join(_program(*machine, [REFUSED, *own], contained=contained, memory=memory, replaced=replaced))
    kept = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)))
    return libc().syscall(_SECCOMP[machine[0]], 1, 1, program) == 0  # a filter, for all threads


def _program(
    column: int,
    machine: int,
    tables: Sequence[dict[str, tuple[int | None, int | None]]],
    *,
    contained: bool,
    memory: bool,
    replaced: mapped.Replaced | None,
) -> list[bytes]:
    """The instructions of the filter, which reads the number and the first arguments of a call."""
    calls = [call for table in tables for call in table.values()]
    code = [
        do(LOAD, MACHINE_AT),
        do(EQUAL, machine, 1, 0),
        do(RETURN, KILL),  # a call for another architecture
        do(LOAD, NUMBER_AT),
        do(AT_LEAST, 0x40000000, 0, 1),  # x32
        do(RETURN, ERROR | EPERM),
        do(EQUAL, _CLONE3[column], 0, 1),  # a filter cannot read its flags; the C library falls back to clone
        do(RETURN, ERROR | ENOSYS),
    ]
    for call in calls:
        if call[column] is not None:
            code += [do(EQUAL, call[column] or 0, 0, 1), do(RETURN, ERROR | EPERM)]
    for call, places in ABOUT_ONESELF.values():
        code += _only_zeros(call[column], places)
    for call in CLOCKS.values():
        code += _unless_negative(call[column])
    code += _only_own_wakes(_FUTEX[column])
    for call in SIGNALS.values() if contained else ():
        code += _if_argument(call[column], 0, (os.getpid(),), allow=True)
    code += _if_argument(NETWORK["socket"][column] or 0, 0, _FAMILIES, allow=True)
    code += _if_argument(_FCNTL[column], 1, (*_LOCKS, *_SIGNALS_OF_FILES, *_HINTS, _LARGER_PIPE), allow=False)
    code += _if_argument(_IOCTL[column], 1, _OWNERS_OF_SOCKETS, allow=False)
    if memory:
        code += mapped.stays(column, replaced)
    return [*code, *_only_own_children(_CLONE[column], threads_alone=memory), do(RETURN, ALLOW)]


def _if_argument(call: int, place: int, values: Sequence[int], *, allow: bool) -> list[bytes]:
    """Filter one call by an argument: allow only these values, or refuse only these."""
    refused, allowed = do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)
    each, rest = (allowed, refused) if allow else (refused, allowed)
    code = [do(LOAD, FIRST_AT + 8 * place)]
    for value in values:
        code += [do(EQUAL, value, 0, 1), each]
    code.append(rest)
    return [do(EQUAL, call, 0, len(code)), *code]


def _only_zeros(call: int, places: Sequence[int]) -> list[bytes]:
    """Allow one call if these arguments are 0."""
    refused, allowed = do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)
    decision = [code for at in places for code in (do(LOAD, FIRST_AT + 8 * at), do(EQUAL, 0, 1, 0), refused)]
    return [do(EQUAL, call, 0, 1 + len(decision)), *decision, allowed]


def _only_own_children(call: int, *, threads_alone: bool) -> list[bytes]:
    """Allow one call if it creates no namespaces and, with `threads_alone`, no process."""
    refused, allowed = do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)
    decision = [do(ANY_BIT, _NEW_NAMESPACES, 0, 1), refused]
    if threads_alone:
        decision += [do(ANY_BIT, _A_THREAD, 1, 0), refused]
    return [do(EQUAL, call, 0, 2 + len(decision)), do(LOAD, FIRST_AT), *decision, allowed]


def _unless_negative(call: int) -> list[bytes]:
    """Allow one call if its first argument is not negative."""
    decision = [do(AT_LEAST, 1 << 31, 0, 1), do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)]
    return [do(EQUAL, call, 0, 1 + len(decision)), do(LOAD, FIRST_AT), *decision]


def _only_own_wakes(call: int) -> list[bytes]:
    """Allow only process-private futexes: through a file that two ranks can read, one could wake the other.

    Joining a thread uses a shared futex, which any process could wake; with the refusal, the C library polls instead.
    """
    refused, allowed = do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)
    decision = [do(ANY_BIT, _FUTEX_PRIVATE, 0, 1), allowed, do(AND, 0x7F)]
    for kind in _FUTEX_WAITS:
        decision += [do(EQUAL, kind, 0, 1), do(RETURN, ERROR | EAGAIN)]
    decision.append(refused)
    return [do(EQUAL, call, 0, 1 + len(decision)), do(LOAD, FIRST_AT + 8), *decision]
