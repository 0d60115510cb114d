"""Seconds of a step: kernels, links, overlap, the pipeline's stages; the constants, and this machine's own."""
