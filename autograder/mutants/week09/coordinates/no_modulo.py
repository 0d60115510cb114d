"""Wrong: divides and forgets what turns over."""


def coordinates(rank, sizes):
    places, stride = {}, 1
    for name, size in sizes.items():
        places[name] = rank // stride
        stride *= size
    return places
