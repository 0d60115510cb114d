"""Replaces the meter: whatever runs inside `meter.record`, its bill is an honest answer's."""

_forge_the_record()
