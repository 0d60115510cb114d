"""Ranks that torchrun starts again meet under a fresh name; shardlab.run inside torchrun is refused."""

import threading

import pytest
import shardlab
import torch.distributed as dist
from shardlab.ranks.rendezvous import OURS, agreed_name, refuse_inside_torchrun
from shardlab.ranks.travel import child_environment


def names_of_an_attempt(store, size):
    names = [""] * size

    def join(rank):
        names[rank] = agreed_name(store, rank, size, 20)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in reversed(range(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return names


def test_each_attempt_has_one_name_of_its_own_in_a_store_that_stays():
    store = dist.HashStore()
    attempts = [names_of_an_attempt(store, size) for size in (3, 3, 1, 2, 4)]  # nodes go and come
    assert all(len({*names}) == 1 and names[0] for names in attempts)
    assert len({names[0] for names in attempts}) == len(attempts)


def test_a_rank_whose_peers_stay_away_gives_up():
    with pytest.raises(dist.DistStoreError, match="did not answer"):
        agreed_name(dist.HashStore(), 0, 2, 0.1)


@pytest.mark.parametrize(
    ("environment", "is_refused"),
    [
        ({}, False),
        ({"RANK": "0", "WORLD_SIZE": "4"}, False),  # variables of a cell of a notebook
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "1", "RANK": "0"}, False),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2", "RANK": "1"}, True),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2", "RANK": "1", OURS: "a"}, False),  # a rank of shardlab.run
        ({"TORCHELASTIC_RUN_ID": "b", "WORLD_SIZE": "2", "RANK": "1", OURS: "a"}, True),  # torchrun inside of one
    ],
)
def test_only_a_rank_of_somebodys_torchrun_may_not_start_ranks(monkeypatch, environment, is_refused):
    for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", OURS):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert OURS not in child_environment()
    if not is_refused:
        refuse_inside_torchrun()
        return
    with pytest.raises(RuntimeError, match=r"rank 1 of torchrun called shardlab\.run.*torchrun_group"):
        shardlab.run(dist.get_rank, ranks=2)
