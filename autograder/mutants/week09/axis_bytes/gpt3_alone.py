"""Wrong: returns the numbers of the page."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    return [50331648, 88080384, 4227858432, 50331648, 21065651712]
