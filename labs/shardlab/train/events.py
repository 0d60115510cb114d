"""Scalars for TensorBoard: `tensorboard --logdir FOLDER` shows them. The format is tensorboardX's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined] - protobuf makes it at run time
from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[attr-defined]


class EventWriter:
    """Appends scalars to a new file in a folder.

    It writes from the calling thread. `tensorboardX.SummaryWriter` writes from a thread that dies when the disk is
    full; training would then block on its full queue.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._events = EventsWriter(str(folder / "events"), filename_suffix=f".{os.getpid()}")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of one step, by name."""
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._events.flush()

    def close(self) -> None:
        """Close the file."""
        self._events.close()
