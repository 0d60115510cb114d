"""Seconds of a step: kernels, links, overlap, pipeline stages, their constants, and calibrated machines."""
