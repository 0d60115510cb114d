"""Several threads call at once, as two widgets of a notebook do: every result is right, and nothing is left behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import psutil
import pytest
import shardlab
import torch.distributed as dist
from shardlab.ranks import travel, warm
from shardlab.ranks.travel import by_value, pack


def numbered(number):
    return number, dist.get_rank()


def registered():
    return set(cloudpickle.list_registry_pickle_by_value())


def test_a_module_stays_on_the_list_until_the_last_thread_has_packed():
    """The other thread is held in the middle of its call: no luck decides."""
    before, inside, finish = registered(), threading.Event(), threading.Event()

    def other():
        with by_value(numbered):
            inside.set()
            finish.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30)
    assert pack(numbered, (1,)) and __name__ in registered()
    finish.set()
    thread.join(30)
    assert registered() == before and travel._users[__name__] == 0


def test_two_functions_of_one_module_travel_together():
    before = registered()
    with by_value(numbered), by_value(registered):
        pass
    assert registered() == before


def test_what_cannot_travel_leaves_the_list_as_it_was():
    before = registered()
    with pytest.raises(TypeError, match="cannot travel"):
        pack(numbered, (threading.Lock(),))
    assert registered() == before


def test_eight_threads_call_five_times_each():
    before = registered()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: shardlab.run(numbered, number, ranks=2, timeout=60), range(40)))
    assert answers == [[(number, 0), (number, 1)] for number in range(40)]
    assert registered() == before
    children = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    commands = [" ".join(child.cmdline()) for child in children]
    assert sum("shardlab.ranks.worker" in command for command in commands) == 1


def test_threads_that_call_first_start_one_worker(monkeypatch):
    made = []

    class Slow:
        is_alive = True

        def __init__(self):
            made.append(self)
            threading.Event().wait(0.2)

        def close(self):
            pass

    monkeypatch.setattr(warm, "WarmWorker", Slow)
    monkeypatch.setattr(warm, "_worker", None)
    with ThreadPoolExecutor(4) as pool:
        workers = list(pool.map(lambda _: warm.worker(), range(4)))
    assert len(made) == 1 and workers == made * 4
