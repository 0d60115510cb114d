"""What ranks send and hold: every collective and every send and receive, with bytes, group, order and source line."""

from shardlab.meter.held import Held, bytes_held
from shardlab.meter.record import Bill, Event, record

__all__ = ["Bill", "Event", "Held", "bytes_held", "record"]
