"""Different: a generator, and a list for the window."""


def gather_plan(num_units, prefetch):
    def events():
        passes = [("forward", unit) for unit in range(num_units)]
        passes += [("backward", unit) for unit in range(num_units - 1, -1, -1)]
        there = []
        while passes:
            window = [unit for _, unit in passes[: prefetch + 1]]
            for unit in [one for one in there if one not in window]:
                there.remove(unit)
                yield "free", unit
            for unit in window:
                if unit not in there:
                    there.append(unit)
                    yield "gather", unit
            yield passes.pop(0)
        for unit in there:
            yield "free", unit

    return [f"{verb} {unit}" for verb, unit in events()]
