"""Looks for memory outside its own mark: processes, programs, files, shared and large pages, pipes, pages that leave.

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
    libc.mmap.restype, libc.syscall.restype = ctypes.c_void_p, ctypes.c_long
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

    def addresses(right, path=""):
        with open("/proc/self/maps") as file:
            lines = [line.split() for line in file]
        found = [one[0] for one in lines if one[1].startswith(right) and one[4] != "0" and path in one[-1]]
        begin, end = (int(address, 16) for address in found[-1].split("-"))
        return ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), begin, end - begin

    code, size, at, length = addresses("r-xp", "libtorch_python")
    page_size = ctypes.c_size_t(4096)
    below = ctypes.c_void_p(at - 4096)
    fixed, move = 0x32, 0x3  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED; MREMAP_MAYMOVE | MREMAP_FIXED

    def number(on_x86, elsewhere):
        return on_x86 if x86 else elsewhere

    def maps_over(address, *, right=1):
        if libc.syscall(number(9, 222), address, page_size, right, fixed, -1, ctypes.c_long(0)) == -1:
            raise OSError(ctypes.get_errno())

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
    tries("a larger pipe", lambda: fcntl.fcntl(1, 1031, 1 << 20))
    tries("pipes", os.pipe)
    for advice in (4, 8, 9, 20, 21, 24, 102):
        tries(f"code given up by advice {advice}", lambda advice=advice: raw(number(28, 233), code, size, advice))
    tries("code unmapped", lambda: raw(number(11, 215), code, page_size))
    tries("code unmapped with what is below", lambda: raw(number(11, 215), below, ctypes.c_size_t(3 * 4096)))
    tries(
        "code unmapped by a huge size", lambda: raw(number(11, 215), ctypes.c_void_p(at % 2**32), ctypes.c_size_t(at))
    )
    tries("code moved", lambda: raw(number(25, 216), code, page_size, ctypes.c_size_t(8192), 1, None))
    tries("code shrunk", lambda: raw(number(25, 216), code, size, page_size, 0, None))
    tries("pages over code", lambda: maps_over(code))
    own = ctypes.c_void_p(libc.mmap(None, 4096, 3, 0x22, -1, 0))
    tries("pages moved over code", lambda: raw(number(25, 216), own, page_size, page_size, move, code))
    tries("code made writable", lambda: raw(number(10, 226), code, page_size, 7))
    tries("code made writable with a key", lambda: raw(number(329, 288), code, page_size, 7, -1))
    heap = next(line.split("-")[0] for line in open("/proc/self/maps") if "[heap]" in line)
    if libc.syscall(number(12, 214), ctypes.c_void_p(int(heap, 16) + 4096)) == 0:
        got.append("a smaller heap")
    tries("a mark that begins anew", lambda: writes("/proc/self/clear_refs", "5"))
    for folder in ("/tmp", "/dev/shm", os.getcwd(), os.environ.get("TMPDIR", "/tmp")):
        tries(f"a file in {folder}", lambda folder=folder: writes(f"{folder}/kept_by_an_attack", "x"))
    raise RuntimeError(f"got {got}")
