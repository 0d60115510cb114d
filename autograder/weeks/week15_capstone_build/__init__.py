"""Week 15, one file an exercise: five axes in one step, a checkpoint for any mesh, and which axis broke the loss."""
