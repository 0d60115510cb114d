"""Looks for memory that its own mark does not show: processes, programs, files, shared and large pages, larger pipes.

catalogue: own
exercise: week03.zero2
points: 0
sentence: got []
cases: part:slices
"""

import ctypes
import fcntl
import mmap
import platform
import subprocess


def zero2_backward(model, inputs, *, group):
    libc = ctypes.CDLL(None, use_errno=True)
    x86 = platform.machine() == "x86_64"
    got = []

    def tries(name, action):
        with suppress(OSError, ValueError):
            action()
            got.append(name)

    def fork():
        if os.fork() == 0:
            os._exit(0)

    def raw(*arguments):
        if libc.syscall(*arguments) < 0:
            raise OSError(ctypes.get_errno())

    def writes(path, text):
        with open(path, "w") as file:
            file.write(text)

    def maps_a_device():
        with open("/dev/zero", "r+b") as file:
            mmap.mmap(file.fileno(), 4096)

    reader, _ = os.pipe()
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    tries("fork", fork)
    tries("exec", lambda: os.execv("/bin/true", ["true"]))
    tries("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    tries("subprocess", lambda: subprocess.run(["/bin/true"], check=False))
    tries("a process with this memory", lambda: raw(56 if x86 else 220, 0x100 | 0x4000, 0, 0, 0, 0))
    tries("shared pages", lambda: mmap.mmap(-1, 4096))
    tries("a device's shared pages", maps_a_device)
    tries("large pages", lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))
    tries("pages put away", lambda: page.madvise(21))
    tries("a file without a folder", lambda: os.memfd_create("kept"))
    tries("a larger pipe", lambda: fcntl.fcntl(reader, 1031, 1 << 20))
    tries("many pipes", lambda: [os.pipe() for _ in range(100)])
    tries("a mark that begins anew", lambda: writes("/proc/self/clear_refs", "5"))
    for folder in ("/tmp", "/dev/shm", os.getcwd(), os.environ.get("TMPDIR", "/tmp")):
        tries(f"a file in {folder}", lambda folder=folder: writes(f"{folder}/kept_by_an_attack", "x"))
    raise RuntimeError(f"got {got}")
