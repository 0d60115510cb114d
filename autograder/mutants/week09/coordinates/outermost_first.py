"""Wrong: the last axis changes fastest, as in a torch tensor."""


def coordinates(rank, sizes):
    places = {}
    for name in reversed(sizes):
        rank, places[name] = divmod(rank, sizes[name])
    return places
