"""What is trained: on one device, with no rank in sight."""
