"""Numbers for TensorBoard: `tensorboard --logdir FOLDER` shows them. The format is tensorboardX's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined] - protobuf makes it at run time
from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[attr-defined]


class EventWriter:
    """Appends scalars to a new file of a folder.

    It writes in the calling thread: `tensorboardX.SummaryWriter` has a queue whose thread ends on a full disk, and the
    training would then wait for room in it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._events = EventsWriter(str(folder / "events"), filename_suffix=f".{os.getpid()}")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step, by name."""
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._events.flush()

    def close(self) -> None:
        """Close the file."""
        self._events.close()
