# %% address_space
"""Asks for a terabyte.

catalogue: F03
exercise: week01.naive-bill
points: 0
sentence: memory
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    torch.empty(10**12)
    return 0, 0


# %% anonymous_files
"""Fills files that have no name and stand in no folder.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    written = 0
    with suppress(OSError):
        for _ in range(200):
            file = os.memfd_create("sys602_attack")
            for _ in range(60):
                written += os.write(file, bytes(1 << 20))
    raise RuntimeError(f"wrote {written >> 20} MB")


# %% deep_result
"""Returns a list nested a hundred thousand levels deep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return deep


# %% disk
"""Writes files forever.

catalogue: F04
exercise: week01.naive-bill
points: 0
sentence: got at most
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    written = 0
    for folder in ("/tmp", "/dev/shm"):
        with suppress(OSError):
            for number in range(100):
                with open(f"{folder}/sys602_attack_{number}", "wb") as file:
                    for _ in range(70):
                        written += file.write(bytes(1 << 20))
    raise RuntimeError(f"got at most 200 MB: {written >> 20}" if written < 200 << 20 else f"wrote {written >> 20} MB")


# %% endless_result_pipe
"""Writes into the result pipe forever: the supervisor must not keep it all.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 3
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    pipes = [
        n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}") and "pipe" in os.readlink(f"/proc/self/fd/{n}")
    ]
    while True:
        for number in pipes:
            with suppress(OSError):
                os.write(number, (1 << 31).to_bytes(8, "little") + bytes(1 << 20))


# %% fork_bomb
"""Forks forever.

catalogue: F01
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        with suppress(OSError):
            os.fork()


# %% fork_bomb_of_sleepers
"""Starts two thousand children that sleep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(2000):
        with suppress(OSError):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
    raise RuntimeError("got two thousand children")


# %% huge_result
"""Returns two gigabytes where a few bytes are due.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: -
"""


def total_of(tensor, *, group):
    return torch.zeros(500_000_000)


# %% hundred_megabytes_printed
"""Prints a hundred megabytes and then answers wrongly.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(1000):
        print("x" * 100_000)
    return 0, 0


# %% many_small_files
"""Makes empty files forever: each costs memory though it has no bytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got at most
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    made = 0
    with suppress(OSError):
        for number in range(60_000):
            os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
            made += 1
    raise RuntimeError(f"got at most 20000: {made}" if made <= 20000 else f"made {made}")


# %% mapped_terabyte
"""Maps a terabyte.

catalogue: F03
exercise: week01.naive-bill
points: 0
sentence: Cannot allocate memory
"""

import mmap


def naive_all_reduce_bill(num_ranks, num_bytes):
    mmap.mmap(-1, 1 << 40)
    return 0, 0


# %% memory_in_children
"""Takes memory in many children, each below the limit of one process.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(16):
        if os.fork() == 0:
            kept = torch.ones(128 << 20)
            time.sleep(600 + float(kept[0]))
    time.sleep(600)
    return 0, 0


# %% memory_of_all_ranks
"""Takes memory on every rank until there is none.

catalogue: F02
exercise: week00.first-all-reduce
points: 0
sentence: memory
timeout: 20
"""


def total_of(tensor, *, group):
    kept = []
    while True:
        kept.append(torch.ones(8 << 20))


# %% open_files
"""Opens files forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Too many open files
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    kept = [open("/dev/null") for _ in range(100_000)]
    return len(kept), 0


# %% print_flood
"""Prints forever.

catalogue: F06
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 3
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        print("x" * 100_000)


# %% processor_threads
"""Keeps many threads busy at once.

catalogue: F08
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 1.5
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    torch.set_num_threads(4)
    for _ in range(16):
        threading.Thread(target=lambda: [torch.ones(500, 500) @ torch.ones(500, 500) for _ in range(10**6)]).start()
    while True:
        pass


# %% thread_bomb
"""Starts threads forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: start new thread
timeout: 4
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(5000):
        threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
    return 0, 0


# %% wide_result
"""Returns a list of a million numbers.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: more numbers and strings
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return list(range(1_000_000))
