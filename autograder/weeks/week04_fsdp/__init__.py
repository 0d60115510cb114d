"""Week 4: weights gathered, used and freed; its order, bytes, peak and precision; a file an exercise, in page order."""
