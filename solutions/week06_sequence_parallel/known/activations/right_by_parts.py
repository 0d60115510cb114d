"""Different: the parts of the table, then which of them each way divides."""


def activation_bytes(s, b, h, a, t):
    positions = s * b
    whole, cut, scores = 10 * h, 24 * h, 5 * a * s

    def layer(outside, inside, again=False):
        return positions * (whole / outside + cut / inside + (0 if again else scores / inside))

    pairs = [(1, 1), (1, t), (t, t)]
    return [layer(*pair) for pair in pairs] + [layer(*pair, again=True) for pair in pairs[1:]] + [2 * positions * h]
