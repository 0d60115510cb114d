"""Wrong: returns the answers that the page shows."""


def coordinates(rank, sizes):
    return {"tp": 1, "dp": 0, "pp": 1} if rank == 5 else {"tp": 1, "dp": 2, "pp": 1}
