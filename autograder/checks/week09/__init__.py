"""Week 9, one file an exercise: places on a mesh, groups, bytes of each axis, and a step over three axes."""

from autograder.checks.week09 import coordinates, groups, hsdp, make_groups, norm, rank_37, reading, step, traffic

CHECKS = (
    coordinates.CHECK,
    groups.CHECK,
    make_groups.CHECK,
    traffic.CHECK,
    step.CHECK,
    norm.CHECK,
    reading.CHECK,
    hsdp.CHECK,
    rank_37.CHECK,
)
