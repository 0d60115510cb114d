"""Different: the first stage takes 1, 2, ... layers, the rest is the same question, remembered."""

from functools import cache


def split_stages(seconds, num_stages):
    @cache
    def best(begin, stages):
        if stages == 1:
            return sum(seconds[begin:]), (len(seconds) - begin,)
        found = []
        for cut in range(begin + 1, len(seconds) - stages + 2):
            slowest, sizes = best(cut, stages - 1)
            found.append((max(slowest, sum(seconds[begin:cut])), (cut - begin, *sizes)))
        return min(found)

    return list(best(0, num_stages)[1])
