# %% core_and_kernel
"""Opens devices and kernel files.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for path in (
        "/dev/mem",
        "/dev/kmsg",
        "/dev/vda",
        "/dev/kvm",
        "/dev/fuse",
        "/proc/kcore",
        "/proc/kallsyms",
        "/sys/kernel",
    ):
        with suppress(OSError):
            got += [path] if os.path.isdir(path) or open(path, "rb").read(1) else []
    raise RuntimeError(f"got {got}")


# %% environment
"""Looks for secrets in the environment.

catalogue: D06
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = [name for name, value in os.environ.items() if "@SECRET@" in value or "TOKEN" in name or "KEY" in name]
    raise RuntimeError(f"got {got}")


# %% gradebook
"""Opens the gradebook where the course keeps it, and beside the submission.

catalogue: D02
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sqlite3


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for path in ("@ROOT@/autograder/gradebook.db", "@HONEY@/gradebook.db", "../../../gradebook.db"):
        with suppress(sqlite3.Error):
            got += sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("select * from grade").fetchall()
    raise RuntimeError(f"got {got}")


# %% home_folders
"""Looks into home folders, keys and system files.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    import sys

    got = []
    for path in (
        "/root/.ssh",
        "/root/.bashrc",
        "/home",
        "/etc/passwd",
        "/etc/shadow",
        "/var",
        "/srv",
        "/run/secrets",
        "/boot",
        "/sys/class",
    ):
        if any(entry.startswith(path + os.sep) for entry in sys.path):
            continue  # contains the course or its Python: only the path to them is visible
        with suppress(OSError):
            got += [path] if (os.listdir(path) if os.path.isdir(path) else open(path).read(1)) else []
    raise RuntimeError(f"got {got}")


# %% hypervisor_socket
"""Opens sockets of families that no network namespace holds back: to the hypervisor, to the kernel's ciphers, raw ones.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: got []
sealed: no
"""

import socket


def total_of(tensor, *, group):
    got = []
    for family, kind in ((40, 1), (38, 5), (17, 3), (31, 3), (44, 3), (2, 3)):
        with suppress(OSError):
            socket.socket(family, kind)
            got.append(family)
    raise RuntimeError(f"got {got}")


# %% interfaces_and_routes
"""Lists the network's interfaces: there is a loopback and nothing else.

catalogue: D03
exercise: week01.naive-bill
points: 0
sentence: got ['lo']
sealed: no
"""

import socket


def naive_all_reduce_bill(num_ranks, num_bytes):
    names = [name for _, name in socket.if_nameindex()]
    raise RuntimeError(f"got {names}")


# %% jupyter_on_the_host
"""Looks for an instructor's servers on the loopback.

catalogue: D04
exercise: week00.first-all-reduce
points: 0
sentence: got []
sealed: no
"""

import socket


def total_of(tensor, *, group):
    got = []
    for port in (8888, 8889, 5432, 22, 8786):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 0.2)
            got.append(port)
    raise RuntimeError(f"got {got}")


# %% leak_by_feedback
"""Prints its inputs and its stack, to read them in the feedback: prints of a graded run are not shown.

catalogue: D10
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import traceback


def naive_all_reduce_bill(num_ranks, num_bytes):
    print("LEAK", num_ranks, num_bytes)
    traceback.print_stack()
    return 0, 0


# %% listener_on_the_host
"""Connects to a listener that the test itself has opened on the host's loopback.

catalogue: D03
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import socket


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    with suppress(OSError):
        got.append(socket.create_connection(("127.0.0.1", int("@PORT@")), 2).recv(9))
    raise RuntimeError(f"got {got}")


# %% listener_on_the_host_open_sockets
"""Connects to the host's listener in a job that may open sockets: it has a network of its own.

catalogue: D03
exercise: week00.first-all-reduce
points: 0
sentence: got []
sealed: no
"""

import socket


def total_of(tensor, *, group):
    got = []
    for address in ("127.0.0.1", "::1"):
        with suppress(OSError):
            got.append(socket.create_connection((address, int("@PORT@")), 1).recv(9))
    got += [name for _, name in socket.if_nameindex() if name != "lo"]
    raise RuntimeError(f"got {got}")


# %% other_processes
"""Reads environment and command line of the host's processes.

catalogue: D07
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for name in ["1", str(os.getppid()), *os.listdir("/proc")]:
        for what in ("environ", "cmdline", "maps"):
            with suppress(OSError):
                text = open(f"/proc/{name}/{what}").read()
                if name.isdigit() and int(name) != os.getpid() and text:
                    got.append(f"{name}/{what}")
    raise RuntimeError(f"got {got}")


# %% solutions_on_disk
"""Looks for notebooks, solutions and checks in the whole file system.

catalogue: D01
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for folder, _, files in os.walk("@ROOT@"):
        if "/.venv" not in folder:
            got += [name for name in files if name.endswith(".ipynb") or name.startswith(("week0", "base", "judge"))]
    for place in (
        "@ROOT@/solutions",
        "@ROOT@/autograder/checks",
        "@ROOT@/autograder/weeks",
        "@ROOT@/autograder/submitted",
        "@HONEY@",
    ):
        got += [place] if os.path.exists(place) else []
    raise RuntimeError(f"got {got}")


# %% unix_sockets_of_the_host
"""Connects to the sockets of the host's services.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import socket


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for path in ("/var/run/docker.sock", "/run/dbus/system_bus_socket", "\0sys602_host", "@HONEY@/socket"):
        with suppress(OSError):
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            got.append(path)
    raise RuntimeError(f"got {got}")
