"""Different: areas are counted down."""


def reads(piece, saved):
    def name(one):
        expert = one["first_expert"] + one["expert"] if one["expert"] >= 0 else -1
        return one["first_layer"] + one["layer"], expert, one["part"]

    def both(a, b):
        return [max(a[0], b[0]), min(a[1], b[1])]

    def area(rows, columns):
        return (rows[1] - rows[0]) * (columns[1] - columns[0])

    found, missing = {}, area(piece["rows"], piece["columns"])
    for number, one in enumerate(saved):
        rows, columns = (both(piece[axis], one[axis]) for axis in ("rows", "columns"))
        block = (*rows, *columns)
        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:
            found[block] = [number, rows, columns]
            missing -= area(rows, columns)
    return None if missing else list(found.values())


def all_reads(saved, wanted):
    return [reads(piece, saved) for piece in wanted]
