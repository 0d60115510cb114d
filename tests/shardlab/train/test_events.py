"""Events for TensorBoard, compared with bytes from TensorBoard's own writer."""

import time

from shardlab.train.logs import EventWriter

# tensorboard 2.20: RecordWriter on Event(wall_time=1.5, step=300, summary=[loss 2.25, rate -1e-3])
THEIRS = (
    "2800000000000000ff70164a09000000000000f83f10ac022a1a0a0b0a046c6f737315000010400a0b0a0472617465156f1283ba570b2620"
)


def test_a_file_is_tensorboards_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1.5)
    writer = EventWriter(tmp_path / "tensorboard")
    writer.scalars(300, {"loss": 2.25, "rate": -1e-3})
    [path] = (tmp_path / "tensorboard").iterdir()
    content = path.read_bytes()  # flushed, though the file is open
    writer.close()
    assert path.name.startswith("events.out.tfevents.") and b"brain.Event:2" in content[:60]
    assert content.endswith(bytes.fromhex(THEIRS))


def test_a_second_run_gets_a_second_file(tmp_path, monkeypatch):
    for moment in (1.5, 2.5):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        EventWriter(tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 2
