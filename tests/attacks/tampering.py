# %% home_startup_files
"""Writes start-up files into its home: they are gone when it ends.

catalogue: E10
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import pathlib

startup = pathlib.Path.home() / ".ipython" / "profile_default" / "startup"
if startup.exists():
    raise SystemExit("something was left behind")
startup.mkdir(parents=True)
(startup / "sys602_attack.py").write_text("import os")


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes


# %% html_in_errors
"""Puts a script into its error, for the feedback page.

catalogue: E13
exercise: week01.naive-bill
points: 0
sentence: RuntimeError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("<script>fetch('/formgrader/api/assignments')</script><img src=x onerror=alert(1)>")


# %% installed_packages
"""Changes installed packages, start-up files and byte code for those who come next.

catalogue: E10
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import site
import sys

import shardlab


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    folders = [*site.getsitepackages(), shardlab.__path__[0], sys.prefix, "/usr/bin", "/etc", "@ROOT@", "/"]
    for folder in folders:
        for name in ("sys602_attack.pth", "__pycache__/sys602_attack.pyc"):
            with suppress(OSError):
                open(os.path.join(folder, name), "w").write("import os")
                got.append(folder)
    with suppress(OSError):
        open(torch.__file__, "a").write("\n")
        got.append("torch")
    raise RuntimeError(f"got {got}")


# %% kill_everything
"""Kills its parent and every process it may.

catalogue: E04
exercise: week01.naive-bill
points: 0
sentence: raised
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for number in [os.getppid(), *range(1, 300)]:
        with suppress(OSError):
            if number != os.getpid():
                os.kill(number, 9)
    os.kill(-1, 9)
    time.sleep(5)


# %% kill_the_others
"""Rank 0 ends all other ranks and returns a number of its own.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        for number in range(2, 300):
            with suppress(OSError):
                if number != os.getpid():
                    os.kill(number, 9)
        return tensor
    time.sleep(1)
    return tensor


# %% long_sentence
"""Raises an error of several megabytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: xxxx
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("x" * 5_000_000)


# %% new_user_namespace
"""Makes a user namespace of its own to be its root.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes


def naive_all_reduce_bill(num_ranks, num_bytes):
    libc, got = ctypes.CDLL(None, use_errno=True), []
    if libc.unshare(0x10000000) == 0:
        got.append("unshare")
    child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        got.append("clone")
    raise RuntimeError(f"got {got}")


# %% pickle_as_result
"""Hands in a pickle that runs a command when it is read, through every pipe.

catalogue: E03
exercise: week01.naive-bill
points: 0
sentence: -
"""

import pickle
import struct


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @HONEY@/sys602_attack",)


def naive_all_reduce_bill(num_ranks, num_bytes):
    data = b"R" + pickle.dumps(Bomb())
    for number in range(3, 256):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", len(data)) + data)
    os._exit(0)


# %% pickle_as_value
"""Returns an object whose pickle runs a command.

catalogue: E03
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @HONEY@/sys602_attack",)


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Bomb()


# %% plants_a_module
"""Plants modules in every folder that later jobs import from.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for folder in [*sys.path, "/", "/usr/lib", "/lib", "/bin", "/etc", "/proc", "/sys", "/dev"]:
        with suppress(OSError):
            open(os.path.join(folder or "/tmp/.", "sys602_attack.py"), "w").close()
            got += [folder] if folder not in ("", "/tmp") else []
    raise RuntimeError(f"got {got}")


# %% raises_its_limits
"""Raises its own limits again.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import resource


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for what in ("AS", "CPU", "FSIZE", "NOFILE", "CORE"):
        number = getattr(resource, f"RLIMIT_{what}")
        _, hard = resource.getrlimit(number)
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (hard + 1, hard + 1))
            got.append(what)
    with suppress(OSError):
        os.nice(-5)
        got.append("priority")
    with suppress(OSError):
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000")
        got.append("memory priority")
    raise RuntimeError(f"got {got}")


# %% remount
"""Makes system folders writable by mounting over them or mounting them again.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes


def naive_all_reduce_bill(num_ranks, num_bytes):
    libc, got = ctypes.CDLL(None), []
    if libc.mount(None, b"/usr", None, 32, None) == 0:
        got.append("remount")
    if libc.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0:
        got.append("mount")
    if libc.chroot(b"/tmp") == 0:
        got.append("chroot")
    with suppress(OSError):
        os.setuid(0)
        os.chown("/usr", 0, 0)
        got.append("chown")
    raise RuntimeError(f"got {got}")


# %% set_user_id_programs
"""Uses programs that run with their owner's rights.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import subprocess


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for command in (["su", "-c", "id"], ["sudo", "-n", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["bwrap", "id"]):
        with suppress(OSError):
            if subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=2).returncode == 0:
                if command[0] not in ("su",):
                    got.append(command[0])
    with suppress(OSError):
        os.chmod("/tmp", 0o7777)
        os.setuid(os.getuid() + 1)
        got.append("another user")
    raise RuntimeError(f"got {got}")


# %% terminal_codes
"""Puts codes for the terminal and text that runs backwards into its error.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: RuntimeError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("\x1b[2J\x1b]0;owned\x07\x1b[31m\u202eright all\u2066 \x00\x9b")


# %% update_grades
"""Raises everyone's scores in the gradebook.

catalogue: E01
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sqlite3


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for path in ("@HONEY@/gradebook.db", "@ROOT@/autograder/gradebook.db"):
        with suppress(sqlite3.Error):
            base = sqlite3.connect(f"file:{path}?mode=rw", uri=True)
            base.execute("update grade set manual_score = 100")
            base.commit()
            got.append(path)
    raise RuntimeError(f"got {got}")


# %% writes_anywhere
"""Leaves a file in whatever folder takes one, beside its own empty ones.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sys
import tempfile

import shardlab

OWN = {"/tmp", "/dev/shm", "/proc", tempfile.gettempdir()}


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    library = os.path.dirname(os.path.dirname(shardlab.__file__))
    for root in ("/", "/tmp", "/dev/shm", library, *sys.path):
        for folder, folders, _ in os.walk(root):
            with suppress(OSError):
                if folder not in OWN:
                    open(os.path.join(folder, "sys602_attack"), "w").close()
                    got.append(folder)
            folders[:] = [] if folder.count("/") > 9 or folder == "/usr" or "-packages/" in folder else folders
            folders[:] = [name for name in folders if os.path.join(folder, name) not in OWN]
    raise RuntimeError(f"got {sorted(set(got))}")
