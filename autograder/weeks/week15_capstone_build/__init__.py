"""Week 15: a trainer for five axes, a checkpoint for any mesh, and which axis has a bug. One file per exercise."""
