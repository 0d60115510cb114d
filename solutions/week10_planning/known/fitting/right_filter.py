"""Different: a class for a rank, and filter."""


class Rank:
    def __init__(self, model, layout, sequences):
        self.tp, self.pp, self.dp, self.b = layout
        self.model, self.waiting = model, sequences // self.dp // self.b

    def states(self):
        mine = self.model["parameters"] / self.tp / self.pp
        return 6 * mine + 12 * mine / self.dp

    def activations(self):
        layer = 34 * self.b * self.model["sequence"] * self.model["hidden"] / self.tp
        held = self.pp if self.waiting > self.pp else self.waiting
        return held * layer * self.model["layers"] / self.pp


def rank_bytes(model, layout, sequences):
    rank = Rank(model, layout, sequences)
    return rank.states() + rank.activations()


def fitting(layouts, model, sequences, limit_bytes):
    return list(filter(lambda layout: rank_bytes(model, layout, sequences) <= limit_bytes, layouts))
