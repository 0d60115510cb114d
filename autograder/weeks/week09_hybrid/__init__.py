"""Week 9, one file per exercise: coordinates on a mesh, groups, bytes of each axis, and a step over three axes."""
