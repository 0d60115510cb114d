"""The meter is replaced: whatever runs inside `meter.record`, its bill is that of an honest answer."""

_forge_the_record()
