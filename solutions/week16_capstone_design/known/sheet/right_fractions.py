"""Different: exact fractions, one term at a time, floats at the end."""

from fractions import Fraction


def gpu_bytes(model, layout):
    own = Fraction(model["parameters"], layout["tp"] * layout["pp"])
    same = layout["dp"] * layout["cp"]
    total = 2 * own + 4 * own + 12 * own / same
    width = Fraction(model["sequence"] * layout["b"] * model["hidden"], layout["cp"] * layout["tp"])
    if layout["chunks"] == 1:
        layers = Fraction(model["layers"], layout["pp"]) * min(layout["pp"], layout["m"])
    else:
        layers = model["layers"] + Fraction(model["layers"] * (layout["pp"] - 1), layout["pp"] * layout["chunks"])
    if layout["recompute"]:
        total += 2 * width * layers + 34 * width
    else:
        total += 34 * width * layers
    return float(total)


def sent_bytes(model, layout):
    b, s, cp, tp, pp = (layout["b"], model["sequence"], layout["cp"], layout["tp"], layout["pp"])
    activation = Fraction(2 * b * s * model["hidden"], cp)
    layers = Fraction(model["layers"], pp) * layout["m"]
    forward, backward = 2, 2
    if layout["recompute"]:
        backward += forward
    tensor = (forward + backward) * layers * activation * 2 * (tp - 1) / tp
    keys = Fraction(2 * b * s * model["kv"], cp * tp)
    rounds = 4 if layout["recompute"] else 3
    context = rounds * layers * (cp - 1) * (keys + keys)
    pipeline = 0
    if pp != 1:
        pipeline = layout["m"] * layout["chunks"] * (activation / tp + activation / tp)
    n = layout["dp"] * cp
    own = Fraction(model["parameters"], tp * pp)
    data = own * 4 * (n - 1) / n + own * 2 * (n - 1) / n
    return {"dp": float(data), "pp": float(pipeline), "cp": float(context), "tp": float(tensor)}
