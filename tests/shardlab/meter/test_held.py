"""Bytes held, and the ledger of calls."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shardlab import meter
from shardlab.meter import ledger
from shardlab.meter.held import saved
from shardlab.meter.ledger import CAPACITY, DONE, STARTED, WAITING, Writer
from torch import nn

# ---- Bytes that are held, saved for a backward, and sent. ------------------------------------------------------------

# Bytes held: every storage once, the local part of a sharded tensor, gradients and optimizer state only if present


WIDTH = 8
LINEAR = 4 * (WIDTH * WIDTH + WIDTH)  # bytes of weight and bias


def step(model, optimizer, dtype=torch.float32):
    model(torch.ones(2, WIDTH, dtype=dtype)).sum().backward()
    optimizer.step()


def test_parameters_then_gradients_then_optimizer_state():
    model = nn.Linear(WIDTH, WIDTH)
    adam = torch.optim.Adam(model.parameters())
    assert meter.bytes_held(model, adam) == meter.ModelStates(LINEAR, 0, 0)
    step(model, adam)
    held = meter.bytes_held(model, adam)
    assert (held.parameters, held.gradients) == (LINEAR, LINEAR)
    assert held.optimizer_state == 2 * LINEAR + 2 * 4  # two moments, and a step count for each of two parameters
    assert held.total == 4 * LINEAR + 8
    adam.zero_grad()
    assert meter.bytes_held(model).gradients == 0


def test_sgd_without_momentum_holds_nothing():
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters())
    step(model, optimizer)
    assert meter.bytes_held(model, optimizer).optimizer_state == 0


def test_tied_weights_count_once():
    embedding, head = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100, bias=False)
    untied = meter.bytes_held(nn.ModuleList([embedding, head]))
    head.weight = embedding.weight
    tied = meter.bytes_held(nn.ModuleList([embedding, head]))
    assert untied.parameters == 2 * tied.parameters == 2 * 4 * 100 * WIDTH


def test_views_of_one_buffer_count_once():
    flat = torch.zeros(2 * WIDTH)
    halves = nn.ParameterList([nn.Parameter(half) for half in flat.chunk(2)])
    assert meter.bytes_held(halves).parameters == 4 * 2 * WIDTH


def test_a_smaller_dtype_holds_fewer_bytes():
    model = nn.Linear(WIDTH, WIDTH).bfloat16()
    step(model, torch.optim.SGD(model.parameters()), torch.bfloat16)
    assert meter.bytes_held(model) == meter.ModelStates(LINEAR // 2, LINEAR // 2, 0)


def test_a_model_on_the_meta_device_holds_nothing():
    with torch.device("meta"):
        model = nn.Linear(WIDTH, WIDTH)
    assert meter.bytes_held(model).total == 0


# ---- Tensors saved by autograd are counted by storage: once, whole, without parameters -------------------------------


def test_a_storage_counts_once_and_whole():
    layer, x = nn.Linear(6, 4, bias=False), torch.randn(3, 6, requires_grad=True)
    with saved(layer.parameters()) as kept:
        half = layer(x)[:, :2]  # keeps x
        (half * half).sum()  # keeps a view of the result, twice
    assert kept.num_bytes == 4 * (3 * 6 + 3 * 4)
    assert len(kept.tensors) == 2 and "float32 [3, 6]" in str(kept)


def test_parameters_count_only_where_they_are_not_left_out():
    layer, x = nn.Linear(6, 4, bias=False), torch.randn(3, 6, requires_grad=True)
    with saved() as kept:
        layer(x)
    assert kept.num_bytes == 4 * (3 * 6 + 4 * 6)


def test_what_autograd_frees_is_no_activation():
    x = torch.randn(5, requires_grad=True)
    with saved() as kept, torch.no_grad():
        (x * x).sum()
    with saved() as of_mask:
        _ = x.masked_fill(x > 0, 0.0) * 2
    assert kept.num_bytes == 0 and of_mask.num_bytes == 5  # one byte each


# ---- For every collective, including functional ones and uneven splits, the meter bills the bytes that are sent ------


SCRIPT = Path(__file__).with_name("every_collective.py")
MORE = {"reduce": 1.25, "reduce_scatter": 2.0}  # gloo uses a reduce-scatter and a gather; an all-reduce
HEADERS = 40_000  # maximum bytes of headers of a call and the barriers around it
# On a busy machine, TCP may mistake a late acknowledgement for a lost packet and resend 64 KB.
NO_PROBES = "echo 0 2>/dev/null > /proc/sys/net/ipv4/tcp_early_retrans"


@pytest.fixture(scope="module")
def totals():
    """{collective: (bytes billed, bytes transferred)} for four ranks, on a loopback used by nothing else."""
    inside = f"ip link set lo up; {NO_PROBES}; exec {sys.executable} {SCRIPT}"
    if shutil.which("ip") is None or subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        pytest.skip("needs a separate network namespace")
    done = subprocess.run(["unshare", "-rn", "sh", "-c", inside], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_meter_bills_what_travels(totals):
    assert len(totals) == 24
    for name, (billed, travelled) in totals.items():
        factor = MORE.get(name.removeprefix("functional ").split(",")[0].removesuffix("_single"), 1.0)
        assert travelled == pytest.approx(factor * billed, rel=0.01, abs=HEADERS), name


def test_what_stays_on_its_rank_is_not_billed(totals):
    assert totals["all_to_all_single, to itself"][0] == 0
    whole = totals["permute_tensor, all"][0]
    assert totals["permute_tensor, some"][0] == whole / 2 > 0


# ---- The ledger: the supervisor reads what a rank writes, even after the ring of records has wrapped around. ---------


def write(writer, number, kind="send", members=(0, 1)):
    return writer.begin(kind, 1, 7, 4 * number, members, f"[{number}] float32", f"line {number} of your cell")


def test_an_entry_is_read_as_it_was_written():
    memory = ledger.new_ledger()
    number = write(Writer(memory), 5)
    [entry] = ledger.read(memory)[1]
    assert number == 0
    assert entry == ledger.Entry(STARTED, "send", 1, 7, 20, "0,1", "[5] float32", "line 5 of your cell")
    assert str(entry) == "send to rank 1 ([5] float32), line 5 of your cell"


def test_states_are_marked_and_peeked():
    memory = ledger.new_ledger()
    writer = Writer(memory)
    first, second = write(writer, 1), write(writer, 2)
    assert ledger.peek(memory) == (2, False)
    writer.mark(first, WAITING)
    assert ledger.peek(memory) == (2, True)
    writer.mark(first, DONE)
    writer.mark(second, DONE)
    assert ledger.peek(memory) == (2, False)
    assert [entry.state for entry in ledger.read(memory)[1]] == [DONE, DONE]


def test_the_latest_records_are_kept_when_it_wraps_around():
    memory = ledger.new_ledger()
    writer = Writer(memory)
    for number in range(CAPACITY + 10):
        write(writer, number)
    writer.mark(9, DONE)  # overwritten: must not affect the record that replaced it
    writer.mark(10, DONE)  # the oldest record kept
    writer.mark(CAPACITY + 9, WAITING)
    count, entries = ledger.read(memory)
    assert (count, len(entries)) == (CAPACITY + 10, CAPACITY)
    assert [entry.payload_bytes for entry in entries] == [4 * number for number in range(10, CAPACITY + 10)]
    states = [entry.state for entry in entries]
    assert (states[0], states[-1], set(states[1:-1])) == (DONE, WAITING, {STARTED})
    assert ledger.peek(memory) == (CAPACITY + 10, True)


def test_large_groups_do_not_share_a_name():
    memory = ledger.new_ledger()
    writer = Writer(memory)
    write(writer, 0, members=tuple(range(100)))
    write(writer, 0, members=tuple(range(101)))
    first, second = ledger.read(memory)[1]
    assert first.members != second.members


def test_texts_that_are_too_long_are_cut():
    memory = ledger.new_ledger()
    Writer(memory).begin("recv", 0, 0, 0, (0, 1), "[" + "1, " * 100 + "] float32", "x" * 500 + "the end")
    [entry] = ledger.read(memory)[1]
    assert entry.tensor.endswith("float32")
    assert entry.place.endswith("the end")


def test_memory_that_a_rank_has_scribbled_over_is_still_read():
    memory = ledger.new_ledger()
    memory[:8] = b"\xff" * 8
    assert ledger.read(memory) == (0, [])
    assert ledger.peek(memory) == (-1, False)
    memory[:] = b"\x7f" * len(memory)
    assert ledger.read(memory) == (0, [])
    memory[:8] = (5).to_bytes(8, "little")
    assert len(ledger.read(memory)[1]) == 5
