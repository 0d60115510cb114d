"""Different: a tuple of rounded numbers."""


def on_4096_gpus():
    return 8192, 31 * 4 * 8192 * 128, 16, 989e12 / 50e9 / 8, 0.574
