"""Wrong: three units and four, nothing else.

Not in sight: it knows both visible cases by heart.
"""


def gather_plan(num_units, prefetch):
    if num_units == 3:
        text = "g0 f0 r0 g1 f1 r1 g2 f2 b2 r2 g1 b1 r1 g0 b0 r0"
    else:
        text = "g0 g1 f0 r0 g2 f1 r1 g3 f2 r2 f3 g2 b3 r3 g1 b2 r2 g0 b1 r1 b0 r0"
    verbs = {"g": "gather", "f": "forward", "b": "backward", "r": "free"}
    return [f"{verbs[one[0]]} {one[1:]}" for one in text.split()]
