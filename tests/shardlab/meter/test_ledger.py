"""The ledger: the supervisor reads what a rank writes, even after the ring of records has wrapped around."""

from shardlab.meter import ledger
from shardlab.meter.ledger import CAPACITY, DONE, STARTED, WAITING, Writer


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
