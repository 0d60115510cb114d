"""What runs inside the sandbox, and under the limits of an ordinary shell."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from shardlab import meter, run

from autograder.checks.base import Reply
from autograder.checks.order import matched_by_tags
from autograder.checks.packets import ObservedCall
from autograder.jobs import places, reduce_scatter
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.sandboxes import surroundings
from autograder.weeks import find

# ---- Jobs inside the sandbox: replaced functions, rehearsals, message order, paths. ----------------------------------

# ---- A job's reduce-scatter: the library's results, sent as ring messages --------------------------------------------


def each_way(name):
    reduce_scatter.install()
    operation = getattr(dist.ReduceOp, name)
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(2.0 * num_ranks).view(num_ranks, 2) + rank
    one, uneven, later = torch.empty(1, 2), torch.empty(rank), torch.empty(2)
    with meter.record() as bill:
        dist.reduce_scatter_single(one, whole, op=operation)
        dist.reduce_scatter(uneven, [torch.full((n,), rank + 1.0) for n in range(num_ranks)], op=operation)
        dist.reduce_scatter_single(later, whole.reshape(-1), op=operation, async_op=True).wait()
    return one, uneven, later, bill.kinds


@pytest.mark.parametrize(
    ("operation", "reduced"),
    [("SUM", torch.sum), ("AVG", torch.mean), ("MAX", torch.amax)],
)
@pytest.mark.slow
def test_every_way_to_ask_for_it_gives_the_reduced_slice(operation, reduced):
    answers = run(each_way, operation, ranks=3)
    for rank, (one, uneven, later, kinds) in enumerate(answers):
        slices = torch.stack([torch.arange(2.0 * rank, 2.0 * rank + 2) + other for other in range(3)])
        ones = torch.stack([torch.full((rank,), other + 1.0) for other in range(3)])
        assert torch.equal(one, reduced(slices, 0)[None])
        assert torch.equal(uneven, reduced(ones, 0))
        assert torch.equal(later, reduced(slices, 0))
        assert kinds == ["reduce_scatter"] * 3, "the bill names what was asked for, not the ring's messages"


@pytest.mark.slow
def test_slices_that_do_not_fit_are_a_sentence():
    def unfit():
        reduce_scatter.install()
        try:
            dist.reduce_scatter_single(torch.empty(2), torch.empty(5))
        except (ValueError, RuntimeError) as error:
            return str(error)

    assert all("5 numbers cannot be cut into slices of 2" in sentence for sentence in run(unfit, ranks=3))


# ---- The zygote rehearses a rank's first steps; only the caches of torch and Python remain afterwards ----------------


PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from autograder.jobs import tags
from autograder.jobs.rehearsal import rehearse
from shardlab.meter.record import recording

def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

torch.set_num_threads(1)
tags.ignore()
os.environ.pop("RANK", None)
before = held(), dict(os.environ), set(sys.modules)
rehearse()
assert held() == before[0], (held(), before[0])
assert dict(os.environ) == before[1]
assert not dist.is_initialized() and dist.distributed_c10d._world.group_count == 0
assert not {"notebook"} & set(sys.modules)
assert "send" in torch.ops.c10d.__dict__, "the first message would look its operator up"
rehearse()  # a second time: it must not interfere with itself
"""


def test_a_rehearsal_leaves_no_group_no_thread_and_no_file():
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", PROGRAM],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout and not done.stderr, "a rehearsal must not print anything"


# Messages match by order: ranks drop tags, and tags that somebody restores are seen on the wire


def send(peer: int, tag: int, members=(0, 1)) -> ObservedCall:
    return ObservedCall("send", list(members), peer, 4, 4, tag)


def recv(peer: int, tag: int, members=(0, 1)) -> ObservedCall:
    return ObservedCall("recv", list(members), peer, 4, 0, tag)


def answer(*calls) -> Reply:
    return Reply([{} for _ in calls], None, 0, "", calls=calls)


def test_one_order_on_both_sides_needs_no_tags():
    assert matched_by_tags(answer([send(1, 0), send(1, 0)], [recv(0, 0), recv(0, 0)])) is None
    assert matched_by_tags(answer([send(1, 7), send(1, 8)], [recv(0, 7), recv(0, 8)])) is None
    assert matched_by_tags(Reply([{}, {}], None, 0, "")) is None


def test_two_orders_that_tags_bring_together_are_named():
    problem = matched_by_tags(answer([send(1, 1), send(1, 2)], [recv(0, 2), recv(0, 1)]))
    assert problem is not None and "tags [1, 2]" in problem and "rank 1 receives [2, 1]" in problem


def test_messages_of_two_groups_are_compared_apart():
    ranks = [send(1, 1), send(1, 2, (0, 1, 2))], [recv(0, 2, (0, 1, 2)), recv(0, 1)], []
    assert matched_by_tags(answer(*ranks)) is None


def judged(judge, name: str, change=lambda source: source) -> str:
    check = find("week13.neighbours")
    source = change(known.find(check.exercise, name).source)
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}
    return judge.judge(check, answer, seed=3, cases=check.public[:1]).text


def bring_tags_back(source: str) -> str:
    """The original methods are still in the closures of the functions that replaced them."""
    lines = ['    for name in ("send", "recv"):', "        mine = getattr(dist.ProcessGroup, name)"]
    lines.append("        while getattr(mine, '__closure__', None):  # the meter's, then that without tags")
    lines.append("            mine = dict(zip(mine.__code__.co_freevars, mine.__closure__))['method'].cell_contents")
    lines.append("        setattr(dist.ProcessGroup, name, lambda *arguments, mine=mine: mine(*arguments))")
    head = "    partner = dist.get_rank(group) ^ 1\n"
    return source.replace(head, "\n".join([*lines, head]))


def test_a_rank_has_no_tags(judge):
    assert "are wrong" in judged(judge, "tags_for_order")
    assert judged(judge, "right_with_tags") == "Correct."


@pytest.mark.isolated(3)
def test_tags_that_come_back_are_seen_from_outside(judge):
    assert "NCCL has no tags" in judged(judge, "tags_for_order", bring_tags_back)
    assert judged(judge, "right_with_tags", bring_tags_back) == "Correct."


# ---- What a sandbox shows of this machine, wherever Python, its packages and the course are --------------------------


def test_of_paths_that_contain_each_other_the_outermost_is_shown():
    paths = ["/usr", "/usr", "/opt/x/lib", "/opt/x", "/opt/x-y", "/usr/local/bin", "/usrlocal"]
    assert places.outermost(paths) == ["/opt/x", "/opt/x-y", "/usr", "/usrlocal"]


def test_below_a_covered_folder_what_is_needed_is_shown_again():
    paths = ["/usr", "/usr/src/course/labs/shardlab", "/usr/src/course/labs/shardlab/meter", "/usr/lib/python3"]
    assert places.outermost(paths, ["/usr/src/course"]) == ["/usr", "/usr/src/course/labs/shardlab"]


@pytest.mark.parametrize("prefix", ["/", "/usr"])
def test_the_systems_own_python_is_shown_once(monkeypatch, prefix):
    """Some builds report / as their prefix when run as /bin/python3."""
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, prefix)
    monkeypatch.setattr(places, "packages", list)
    monkeypatch.setattr(os, "__file__", "/usr/lib/python3.11/os.py")
    assert set(surroundings.mounts()) <= {"/usr", "/etc/ld.so.cache", *places.ours()}


def test_of_a_prefix_that_is_a_home_folder_only_pythons_parts_are_shown(monkeypatch, tmp_path):
    for part in ("bin", "lib", ".ssh"):
        (tmp_path / part).mkdir()
    (tmp_path / "gradebook.db").touch()
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    assert {path for path in places.wanted() if path.startswith(str(tmp_path))} == {
        f"{tmp_path}/bin",
        f"{tmp_path}/lib",
    }


def test_packages_are_shown_wherever_pip_put_them(monkeypatch, tmp_path):
    (tmp_path / "of_a_user" / "numpy-2.0.dist-info").mkdir(parents=True)
    (tmp_path / "homework").mkdir()
    (tmp_path / "link").symlink_to("of_a_user")
    monkeypatch.setattr(sys, "path", ["", "relative", str(tmp_path / "homework"), str(tmp_path / "link"), *sys.path])
    folder = str(tmp_path / "of_a_user")
    assert folder in surroundings.mounts() and str(tmp_path / "homework") not in surroundings.mounts()
    paths = surroundings.environment()["PYTHONPATH"].split(":")
    assert folder in paths and not set(map(os.path.realpath, site.getsitepackages())) & set(paths)


def test_no_path_is_shown_by_the_name_of_a_link():
    """A tree visible under two names could be masked under only one of them."""
    assert [path for path in surroundings.mounts() if os.path.realpath(path) != path] == []


@pytest.mark.parametrize("where", ["course", "autograder"])
def test_a_course_below_what_is_shown_is_covered(monkeypatch, tmp_path, where):
    """A checkout in /usr/src, or an autograder that pip installed in the same place as its checks."""
    jobs = tmp_path / "autograder" / "jobs"
    jobs.mkdir(parents=True)
    if where == "course":
        (tmp_path / "nbgrader_config.py").touch()
    monkeypatch.setattr(surroundings, "__file__", str(tmp_path / "autograder" / "sandboxes" / "surroundings.py"))
    monkeypatch.setattr(places, "ours", lambda: [str(jobs)])
    monkeypatch.setattr(places, "packages", lambda: [str(tmp_path.parent)])
    found = {path: shown for path, shown in surroundings.mounts().items() if path.startswith(str(tmp_path.parent))}
    covered = str(tmp_path if where == "course" else tmp_path / "autograder")
    assert found == {str(tmp_path.parent): True, covered: False, str(jobs): True}


def test_links_are_followed_as_linux_does(tmp_path):
    real = tmp_path / "python-3.11.7" / "bin"
    real.mkdir(parents=True)
    (real / "python3.11").touch()
    (real / "python3").symlink_to("python3.11")
    (tmp_path / "python").symlink_to("python-3.11.7")
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "alternatives" / "python3").symlink_to("../python/bin/python3")
    (tmp_path / "chosen").symlink_to(tmp_path / "alternatives" / "python3")
    assert places.links_on(str(tmp_path / "chosen")) == {
        f"{tmp_path}/chosen": f"{tmp_path}/alternatives/python3",
        f"{tmp_path}/alternatives/python3": "../python/bin/python3",
        f"{tmp_path}/python": "python-3.11.7",
        f"{real}/python3": "python3.11",
    }
    (tmp_path / "round").symlink_to("round")
    assert places.links_on(str(tmp_path / "round")) == {f"{tmp_path}/round": "round"}


def test_a_link_to_this_python_is_made_again_unless_it_is_shown(monkeypatch):
    links = {"/etc/alternatives/python3": "/usr/bin/python3.11", "/usr/bin/python3": "/etc/alternatives/python3"}
    monkeypatch.setattr(places, "links", lambda: links | {"/bin": "usr/bin"})
    others = {link: to for link, to in surroundings.links().items() if Path(link).parent != Path("/")}
    assert others == {"/etc/alternatives/python3": "/usr/bin/python3.11"}


# ---- With hard `ulimit`s lower than a job would set, the job works within them. --------------------------------------

LIMITS = {"NOFILE": 256, "FSIZE": 32 << 20, "CPU": 600, "AS": 40 << 30, "NPROC": 20_000, "CORE": 0}
PROGRAM_ULIMITS = """
import json, resource, sys
for name, value in json.loads(sys.argv[1]).items():
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
from autograder import weeks
from autograder.judging.judge import Judge
check = weeks.find("week01.naive-bill")
source = "def naive_all_reduce_bill(n, b):\\n    return 2 * (n - 1), 2 * (n - 1) * b\\n"
with Judge() as judge:
    print(judge.judge(check, {"preamble": "", "cells": [[check.exercise, source, True]]}, 1).text)
"""
LOW = """
import resource
for name in ("RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU"):
    resource.setrlimit(getattr(resource, name), (int({values}[name]), int({values}[name])))
from autograder.jobs import confine, job
job._limit_own_memory()
confine.limit(seconds=1000, memory_bytes=8 << 30)
print(*(resource.getrlimit(getattr(resource, name))[1] for name in {values}))
"""


def run_ulimits(program, *arguments):
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)


@pytest.mark.slow
def test_an_answer_is_judged_under_hard_limits():
    answer = run_ulimits(PROGRAM_ULIMITS, json.dumps(LIMITS))
    assert answer.stdout.strip() == "Correct.", answer.stdout + answer.stderr


@pytest.mark.slow
def test_no_limit_is_raised_above_what_is_allowed():
    values = {"RLIMIT_AS": 1 << 31, "RLIMIT_NOFILE": 200, "RLIMIT_FSIZE": 1 << 20, "RLIMIT_CPU": 100}
    answer = run_ulimits(LOW.format(values=values))
    assert answer.stdout.split() == list(map(str, values.values())), answer.stderr
