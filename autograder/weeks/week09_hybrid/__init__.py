"""Week 9, one file an exercise: places on a mesh, groups, bytes of each axis, and a step over three axes."""
