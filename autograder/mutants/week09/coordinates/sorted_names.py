"""Wrong: goes through the axes by name instead of in their order."""


def coordinates(rank, sizes):
    places = {}
    for name in sorted(sizes):
        rank, places[name] = divmod(rank, sizes[name])
    return places
