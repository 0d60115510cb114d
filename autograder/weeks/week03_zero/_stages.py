"""Shared by this week's two byte counts: four numbers, for stages 0, 1, 2 and 3."""

STAGES = tuple(f"the size of a rank's model states with {stage}" for stage in ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"))
