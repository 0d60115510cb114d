"""A notebook that waits in a cold call until it is killed."""

import time

import shardlab


def wait():
    time.sleep(1000)


shardlab.run(wait, ranks=1, timeout=600, launcher="torchrun")
