"""Different: a string of seed and epoch seeds Python's generator."""

from random import Random


def sequences(seed, step, replica, dp, batch, num):
    def place(number):
        epoch, at = divmod(number, num)
        order = list(range(num))
        Random(f"{seed}/{epoch}").shuffle(order)
        return order[at]

    first = step * batch + replica * (batch // dp)
    return [place(number) for number in range(first, first + batch // dp)]


def order_of(calls):
    return [sequences(*call) for call in calls]
