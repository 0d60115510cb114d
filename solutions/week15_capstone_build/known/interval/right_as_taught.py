"""Different: the page's own formula."""


def checkpoint_numbers(gpus, years_between_failures, save_seconds, restart_seconds):
    between = years_between_failures * 365 * 24 * 3600 / gpus
    young = (2 * save_seconds * between) ** 0.5
    ratio = save_seconds / (2 * between)
    daly = young * (1 + ratio**0.5 / 3 + ratio / 9) - save_seconds

    def goodput(interval):
        whole = interval + save_seconds
        return interval / whole * (1 - (restart_seconds + whole / 2) / between)

    return [between, young, daly, goodput(young), goodput(3600)]
