# %% both_send_first
"""Both ranks send first: a send returns only when the other side receives.

catalogue: C05
exercise: week01.exchange
points: 0
sentence: Nobody receives
"""


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    dist.send(tensor, group_dst=partner, group=group)
    dist.recv(received, group_src=partner, group=group)
    return received


# %% breakpoint
"""Stops in the debugger.

catalogue: C09
exercise: week01.naive-bill
points: 0
sentence: Bdb
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    breakpoint()
    return 0, 0


# %% closes_every_pipe
"""Closes all its descriptors, then returns.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Rank 0
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    os.closerange(0, 1024)
    return 0, 0


# %% daemon_outlives
"""Answers rightly and leaves a process of its own session behind, twice forked.

catalogue: C10
exercise: week00.first-all-reduce
points: 1
sentence: Correct
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return total


# %% different_collectives
"""Rank 0 broadcasts while the others reduce.

catalogue: C04
exercise: week00.first-all-reduce
points: 0
sentence: diverge
timeout: 1.5
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    if dist.get_rank() == 0:
        dist.broadcast(total, group_src=0, group=group)
    else:
        dist.all_reduce(total, group=group)
    return total


# %% early_return
"""One rank returns early, the others wait in the collective.

catalogue: C03
exercise: week00.first-all-reduce
points: 0
sentence: never makes the call
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        return tensor
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% endless_loop
"""Loops forever without a pause.

catalogue: C01
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        pass


# %% grandchild_keeps_the_pipe
"""A grandchild in its own session keeps all pipes open while the rank itself ends without a result.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: exit code 0
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    os._exit(0)


# %% group_on_some_ranks
"""Makes a new group on one rank alone.

catalogue: C13
exercise: week00.first-all-reduce
points: 0
sentence: ank
timeout: 2.5
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        group = dist.new_group([0, 1])
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% half_a_message
"""Announces a long result on every pipe, hands in half of it and sleeps.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import struct


def naive_all_reduce_bill(num_ranks, num_bytes):
    for number in range(3, 64):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", 1000) + b"R")
    time.sleep(600)


# %% loop_that_swallows
"""Sleeps forever and swallows whatever interrupts it.

catalogue: C02
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass


# %% makes_a_group
"""Makes a process group although one is passed: that needs the store, and the store is a way past the wire.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: creates no process groups
"""


def total_of(tensor, *, group):
    group = dist.new_group([0, 1])
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% result_that_never_ends
"""Returns a list that never comes to an end when it is read.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: had not finished
timeout: 1.5
"""


class Endless(list):
    def __iter__(self):
        while True:
            yield 1


def total_of(tensor, *, group):
    return Endless()


# %% second_world
"""Makes the world a second time, with another size.

catalogue: C13
exercise: week00.first-all-reduce
points: 0
sentence: trying to initialize the default process group twice
"""


def total_of(tensor, *, group):
    dist.init_process_group("gloo", rank=0, world_size=5)
    return tensor


# %% signals_ignored
"""Ignores and blocks every signal that can be, then loops.

catalogue: C07
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import signal

for number in range(1, 65):
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        time.sleep(1)


# %% stops_itself
"""Stops itself, so that no signal but the last one reaches it.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import signal


def naive_all_reduce_bill(num_ranks, num_bytes):
    os.kill(os.getpid(), signal.SIGSTOP)
    return 0, 0


# %% text_that_never_ends
"""Raises an exception whose text takes forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


class Slow(Exception):
    def __str__(self):
        while True:
            pass


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise Slow


# %% threads_outlive
"""Answers rightly and leaves threads behind that never end.

catalogue: C11
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    threading.Thread(target=lambda: time.sleep(600), daemon=False).start()
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes


# %% waits_for_input
"""Asks for input.

catalogue: C09
exercise: week01.naive-bill
points: 0
sentence: EOFError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return input("messages? "), 0
