# %% abort_forged_ledger
"""Fills its own ledger with garbage through the memory it shares with its supervisor, then dies.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""

import sys


def total_of(tensor, *, group):
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[:] = os.urandom(len(memory))
    memory[:8] = (4000).to_bytes(8, "little")
    os._exit(3)


# %% deep_expression [raw]
# """An expression nested deeper than the parser goes.
#
# catalogue: own
# exercise: week01.naive-bill
# points: 0
# sentence: not Python
# """
#
#
# def naive_all_reduce_bill(num_ranks, num_bytes):
#     return @DEEP@


# %% different_shapes
"""Gives the collective another shape on rank 0: gloo aborts the process.

catalogue: B05
exercise: week00.first-all-reduce
points: 0
sentence: diverge
"""


def total_of(tensor, *, group):
    total = torch.ones(8 if dist.get_rank() == 0 else 4)
    dist.all_reduce(total, group=group)
    return total


# %% exit_at_import
"""Ends the process while the cell is run.

catalogue: B02
exercise: week00.first-all-reduce
points: 0
sentence: left with exit code 0
"""

os._exit(0)


def total_of(tensor, *, group):
    return tensor


# %% exit_in_the_function
"""Ends the process inside the function, with the code of success.

catalogue: B01
exercise: week00.first-all-reduce
points: 0
sentence: left with exit code 0
"""


def total_of(tensor, *, group):
    os._exit(0)


# %% group_never_destroyed
"""Makes a right answer and leaves threads and groups of its own behind: the points stay.

catalogue: B07
exercise: week00.first-all-reduce
points: 1
sentence: Correct
cases: all
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    total_of.kept = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    return total


# %% interrupt_with_a_long_text
"""Leaves by an interrupt that carries twenty megabytes of text, so that the report is too long to read.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: xxxx
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise KeyboardInterrupt("x" * 20_000_000)


# %% keyboard_interrupt
"""Raises what an interrupt would raise.

catalogue: B03
exercise: week01.naive-bill
points: 0
sentence: KeyboardInterrupt
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise KeyboardInterrupt


# %% ledger_garbage_kept_right
"""Answers rightly and fills its ledger with garbage: the ledger explains, it does not grade.

catalogue: own
exercise: week00.first-all-reduce
points: 1
sentence: Correct
"""

import sys


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[8:] = b"\x07" * (len(memory) - 8)
    return total


# %% ledger_of_ones
"""Sets every bit of its ledger, counter included, then dies.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""

import sys


def total_of(tensor, *, group):
    memory = sys.modules["shardlab.meter.record"]._recorder.writer._memory
    memory[:] = b"\xff" * len(memory)
    memory[:8] = (1 << 39).to_bytes(8, "little")
    os._exit(3)


# %% module_replaced_by_none
"""Empties sys.modules and builtins while it runs.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
"""

import builtins
import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    for name in list(sys.modules):
        sys.modules[name] = None
    vars(builtins).clear()
    return 0, 0


# %% nameless_exception
"""Raises an exception whose class has no name, no module and lines that are not there.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: raised an exception
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    kind = type("\n\n\x1b[31m", (Exception,), {"__module__": None})
    code = compile("def f():\n  raise kind('no line')\n", "/no/such/file\n\n", "exec")
    space = {"kind": kind}
    exec(code, space)
    space["f"]()


# %% null_bytes [raw]
# """A cell with null characters in it.
#
# catalogue: own
# exercise: week01.naive-bill
# points: 0
# sentence: not Python
# """
#
# @NULL@
# def naive_all_reduce_bill(num_ranks, num_bytes):
#     return 0, 0


# %% real_time_signal
"""Dies by a signal that has no name.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: anks
"""


def total_of(tensor, *, group):
    os.kill(os.getpid(), 40)
    time.sleep(5)


# %% receive_too_small
"""Receives into a tensor that is too small, which ends the process without an exception.

catalogue: B05
exercise: week01.exchange
points: 0
sentence: received as
"""


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    work = dist.isend(tensor, group_dst=partner, group=group)
    dist.recv(torch.empty(1, dtype=tensor.dtype), group_src=partner, group=group)
    work.wait()
    return tensor


# %% recursion
"""Calls itself forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: RecursionError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return naive_all_reduce_bill(num_ranks, num_bytes)


# %% segmentation_fault
"""Reads address zero.

catalogue: B04
exercise: week00.first-all-reduce
points: 0
sentence: SIGSEGV
"""

import ctypes


def total_of(tensor, *, group):
    ctypes.string_at(0)


# %% shell_magic [raw]
# """A line for the shell in a graded cell.
#
# catalogue: B09
# exercise: week01.naive-bill
# points: 0
# sentence: is not the number of messages
# """
#
# !pip list
# def naive_all_reduce_bill(num_ranks, num_bytes):
#     return 0, 0


# %% stack_overflow
"""Overflows the C stack: the recursion limit is lifted first.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 1.5
"""

import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr([self.inner])


def naive_all_reduce_bill(num_ranks, num_bytes):
    deep = []
    for _ in range(2_000_000):
        deep = [deep]
    return deep == eval("0") or hash(repr(deep)) or deep


# %% syntax_error [raw]
# """A cell that is not Python.
#
# catalogue: B09
# exercise: week01.naive-bill
# points: 0
# sentence: not Python in line 1
# """
#
#
# def naive_all_reduce_bill(num_ranks, num_bytes:
#     return 0


# %% system_exit
"""Leaves with sys.exit inside the function.

catalogue: B03
exercise: week00.first-all-reduce
points: 0
sentence: SystemExit
"""

import sys


def total_of(tensor, *, group):
    sys.exit(0)


# %% tabs_and_spaces [raw]
# """Tabs and blanks mixed.
#
# catalogue: B09
# exercise: week01.naive-bill
# points: 0
# sentence: not Python
# """
#
#
# def naive_all_reduce_bill(num_ranks, num_bytes):
# 	a = 1
#         b = 2


# %% unprintable_exception
"""Raises an exception whose text cannot be made.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: raised an exception
"""


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise Unprintable


# %% warnings_on_stderr
"""A right answer that warns and prints a lot on standard error: that costs no points.

catalogue: B10
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import sys
import warnings


def naive_all_reduce_bill(num_ranks, num_bytes):
    warnings.warn("OMP_NUM_THREADS is not set", stacklevel=1)
    print("NNPACK is not there\n" * 1000, file=sys.stderr)
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
