"""Measure what ranks send and hold: every collective, send and receive, with bytes, group, order and source line."""

from shardlab.meter.held import ModelStates, SavedStorages, alive, bytes_held, saved
from shardlab.meter.profiler import trace_of_step
from shardlab.meter.record import Bill, Event, record

__all__ = ["Bill", "Event", "ModelStates", "SavedStorages", "alive", "bytes_held", "record", "saved", "trace_of_step"]
