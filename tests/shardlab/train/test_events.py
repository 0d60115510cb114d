"""Events for TensorBoard, against bytes that TensorBoard's own writer has made."""

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st
from shardlab.train.events import EventWriter, crc32c, record, scalars_event

# tensorboard 2.20: RecordWriter on Event(wall_time=1.5, step=300, summary=[loss 2.25, rate -1e-3])
THEIRS = (
    "2800000000000000ff70164a09000000000000f83f10ac022a1a0a0b0a046c6f737315000010400a0b0a0472617465156f1283ba570b2620"
)


def test_a_record_is_tensorboards_to_the_byte():
    assert record(scalars_event(1.5, 300, {"loss": 2.25, "rate": -1e-3})).hex() == THEIRS


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720's CRC-32C
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43  # RFC 3720, appendix B.4
    assert crc32c(b"123456789") != zlib.crc32(b"123456789")


@given(st.binary(max_size=300))
def test_records_follow_one_another(data):
    two = record(data) + record(b"next")
    (length,) = struct.unpack("<Q", two[:8])
    assert two[12 : 12 + length] == data and two[12 + length + 4 :] == record(b"next")


def test_a_folder_gets_a_file_that_begins_with_its_version(tmp_path):
    writer = EventWriter(tmp_path / "tensorboard")
    writer.scalars(1, {"loss": 1.0})
    writer.close()
    [path] = (tmp_path / "tensorboard").iterdir()
    content = path.read_bytes()
    assert path.name.startswith("events.out.tfevents.") and b"brain.Event:2" in content[:60] and b"loss" in content
