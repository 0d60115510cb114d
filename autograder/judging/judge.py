"""The judge: draws inputs, runs answers on them in the sandbox, compares results with expected values, gives points.

No student code runs in this process, and no reply is unpickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from random import Random
from typing import Any, TypeVar

from shardlab.ranks.warm import WorkerLost

from autograder.checks import packets
from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.jobs import masked, plain
from autograder.jobs.loading import COMPLAINT
from autograder.jobs.message import Job, Report
from autograder.reading.program import passed_over, planned
from autograder.reading.stand_ins import with_mine
from autograder.sandboxes.zygote import SandboxLost, Zygote

ATTEMPTS = 3  # a machine fault is tried again, and never scored as an answer
NO_HINT = ("Right, but", "The ranks sent", "The cell ")  # beginnings of problems that are not about wrong numbers
NO_HINTS = (masked.UNAVAILABLE, COMPLAINT)  # in problems that no hint of the exercise is about
MOST_TEXT = 3000  # characters of feedback for a student


JobCases = list[tuple[Case, Task]]  # cases that share one job
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Verdict:
    """Points for one exercise and the feedback that goes with them.

    `fault` marks a machine failure, which is not a grade. `look` marks 0 points for an answer that could not be judged
    although the machine works: the points count, and the instructor should see why.
    `in_sight`: whether a public case showed a problem; None if public and drawn cases shared a job that was lost.
    """

    exercise: str
    points: float
    max: float
    text: str
    fault: bool = False
    in_sight: bool | None = False
    look: bool = False

    @property
    def is_right(self) -> bool:
        """Whether the answer earned all points."""
        return self.points >= self.max


@dataclass(frozen=True)
class Problem:
    """A problem in one part of a check, and the case that shows it; None if it could be any case of a job."""

    text: str
    case: Case | None
    look: bool = False  # the check itself failed: a forged report, or a bug in the check
    hint: bool = True  # whether a hint about computing the right numbers is useful


@dataclass
class Judge:
    """Judges answers with one zygote, which it starts at the first check and replaces if it is lost."""

    zygote: Zygote | None = field(default=None, repr=False)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        if self.zygote is not None:
            self.zygote.close()

    def end_submission(self) -> None:
        """Prepare for another student's answer: discard a level-2 container; namespaces are always fresh."""
        if self.zygote is not None and self.zygote.level == 2:
            self.zygote.close()
            self.zygote = None

    def judge(
        self,
        check: Check,
        answer: dict[str, Any],
        seed: int,
        cases: Sequence[Case] | None = None,
        *,
        until_in_sight: bool = False,
    ) -> Verdict:
        """Judge one answer, {"preamble", "cells"} or {"pickle"}, on `cases` or on public and freshly drawn ones.

        Each part of a check earns its share of the points if all its cases are right. `until_in_sight` stops at the
        first problem that a public case shows, with 0 points, which suffices to know whether students see a problem.
        """
        rng = Random(seed_for(seed, check.exercise))
        answer = with_mine(answer, check.exercise)
        chosen = list(cases) if cases is not None else [*check.public, *check.draw(rng)]
        tasks = [check.make(case, rng) for case in chosen]
        parts = {case.get("part", "") for case in chosen}
        problems: dict[str, Problem] = {}
        for cases_of_job in _jobs(check, chosen, tasks):
            if cases_of_job[0][0].get("part", "") in problems:
                continue
            job = check.job(_merged(cases_of_job), answer)
            try:
                self._judge_job(check, cases_of_job, job, problems)
            except SandboxLost as error:
                return _lost(check, error, its_own=self._serves_others(job))
            except WorkerLost as error:
                return _lost(check, error, its_own=False)
            if until_in_sight and _in_sight(check, problems):
                return _verdict(check, set(problems), problems)
        return _verdict(check, parts, problems)

    def _serves_others(self, job: Job) -> bool:
        """Whether the sandbox can run the same job, with the same inputs, on a harmless answer."""
        names = job.request.functions
        value = "\n".join(f"{name} = 0" for name in names)
        function = "\n".join(f"def {name}(*_, **__): return 0" for name in names)
        source = value if job.request.call is None else function
        try:
            self._ask(replace(job, answer={"preamble": "", "cells": [["harmless", source, True]]}))
        except SandboxLost:
            return False
        return True

    def _judge_job(self, check: Check, cases: JobCases, job: Job, problems: dict[str, Problem]) -> None:
        """Run the cases of a job and record the first problem of their part."""
        replies = _split(self.ask(job), len(cases))
        for (case, task), reply in zip(cases, replies, strict=True):
            failed = False
            try:
                unavailable = _unavailable(reply)
                problem = unavailable or check.judge(case, task, reply)
                problem = problem and (unavailable or _of_inputs(task, reply) or problem)
            except WorkerLost:  # the check ran ranks itself, and this machine lost them
                raise
            except Exception as error:  # a forged report can crash a check, and so can a bug in the check
                failed = True
                name = type(error).__name__
                problem = f"This check cannot read what a rank returned ({name}). Return what the exercise asks for."
            if problem is not None:
                hint = not failed and not problem.startswith(NO_HINT) and hints_help(problem)
                text = f"{_name(case)}: {problem}" if "ranks" in case and not unavailable else problem
                claims = next((one["not_run"] for one in reply.ranks if "not_run" in one), [])
                text = "\n".join([text, *passed_over(job.answer, claims)])
                is_whole = len(cases) > 1 and replies[0] is replies[1]
                problems[case.get("part", "")] = Problem(text, None if is_whole else case, failed, hint)
                return

    def ask(self, job: Job) -> Reply:
        """Run a job; retry in a new sandbox if this one is lost.

        Also retry once after a timeout, because the machine may have been busy.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                reply = self._ask(job)
            except SandboxLost:
                continue
            return self._ask(job) if reply.timed_out else reply
        return self._ask(job)

    def _ask(self, job: Job) -> Reply:
        if self.zygote is None or not self.zygote.is_alive:
            try:
                self.zygote = Zygote()
            except OSError as error:
                raise SandboxLost(f"the sandbox cannot be started: {error}") from error
        request = job.request
        answer = planned(job.answer, request.functions, shows=request.program == "exhibit")
        report = self.zygote.ask(replace(job, answer=answer))
        ranks, unreadable = _reported(report)
        return Reply(
            ranks,
            report.report or unreadable,
            report.loopback_bytes,
            report.printed,
            report.wire,
            calls=packets.calls_of_ranks(report.calls, request.groups, request.ranks),
            unread=report.unread,
            reads_calls=request.reads_calls,
            asked=report.asked,
            timed_out=report.timed_out,
            peak_bytes=[end.peak_bytes for end in report.ends],
        )


def _reported(report: Report) -> tuple[list[dict[str, Any]], str | None]:
    """Each rank's claim, with the supervisor's finding on its inputs, and a sentence if a claim cannot be decoded."""
    ranks, sentence = [], None
    for end in report.ends:
        claimed: Any = {}
        if end.result is not None:
            try:
                claimed = plain.decode(end.result)
            except plain.NotPlain as error:
                sentence = sentence or f"A rank returned bytes that are not a result: {error}."
        ranks.append(claimed if isinstance(claimed, dict) else {})
    for claimed, touched in zip(ranks, report.touched, strict=False):
        claimed["touched"] = touched
    return ranks, sentence


class JudgePool:
    """Several judges, each with its own sandbox, that work through a list of submissions in parallel."""

    def __init__(self, num_judges: int) -> None:
        self._judges = [Judge() for _ in range(num_judges)]
        self._free: SimpleQueue[Judge] = SimpleQueue()
        for judge in self._judges:
            self._free.put(judge)

    def __enter__(self) -> JudgePool:
        return self

    def __exit__(self, *_: object) -> None:
        for judge in self._judges:
            judge.__exit__()

    def map(self, work: Callable[[Judge, Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield `work(judge, item)` for every item in order, with as many items at a time as there are judges."""

        def with_a_judge(item: Item) -> Result:
            judge = self._free.get()
            try:
                return work(judge, item)
            finally:
                judge.end_submission()
                self._free.put(judge)

        with ThreadPoolExecutor(len(self._judges)) as threads:
            yield from threads.map(with_a_judge, items)


def _jobs(check: Check, cases: Sequence[Case], tasks: Sequence[Task]) -> list[JobCases]:
    """One job per case; without ranks, the cases of one part that call the same function share a job."""
    pairs = list(zip(cases, tasks, strict=True))
    if check.program != "without_ranks":
        return [[pair] for pair in pairs]
    jobs: dict[tuple[str, str | None], JobCases] = {}
    for case, task in pairs:
        jobs.setdefault((case.get("part", ""), task.call), []).append((case, task))
    return list(jobs.values())


def _merged(job: JobCases) -> Task:
    """One task with the argument lists of all the job's tasks."""
    first = job[0][1]
    if len(job) == 1:
        return first
    return replace(first, inputs=[[args for _, task in job for args in task.inputs[0]]])


def _split(reply: Reply, num_cases: int) -> list[Reply]:
    """One reply per case of a job; if the job failed as a whole, every case gets the same reply."""
    each = reply.ranks[0].get("answers") if num_cases > 1 else None
    if not isinstance(each, list) or len(each) != num_cases:
        return [reply] * num_cases
    return [replace(reply, ranks=[reply.ranks[0] | {"answers": [one]}]) for one in each]


def seed_for(seed: int, *names: str) -> int:
    """A separate seed for each student and exercise, which is the same at every regrade with the same `seed`."""
    text = ":".join([str(seed), *names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _lost(check: Check, error: SandboxLost | WorkerLost, *, its_own: bool) -> Verdict:
    """No grade if the machine failed; 0 points if it repeatedly fails only for this answer."""
    text = clean(f"Not graded: {error}.")
    if not its_own:
        text += " A busy machine can be the reason: try again."
    else:
        text += f" This happened {ATTEMPTS} times with this answer, but a harmless answer runs in the same sandbox."
    return Verdict(check.exercise, 0.0, check.points, text, fault=not its_own, look=its_own)


def _unavailable(reply: Reply) -> str | None:
    """The sentence of an answer that used a hidden module, whatever the check would say about its result."""
    for reported in reply.ranks:
        answers = reported.get("answers")
        for one in (reported, *(answers if isinstance(answers, list) else ())):
            texts = [one.get(key) for key in ("refused", "raised")] if isinstance(one, dict) else []
            said = [masked.said_in(text) for text in texts if isinstance(text, str)]
            if found := next(filter(None, said), None):
                return found
    return None


def hints_help(text: str) -> bool:
    """Whether an exercise's hints can help: not if its function was not called, or used a hidden module."""
    return not any(words in text for words in NO_HINTS)


def _of_inputs(task: Task, reply: Reply) -> str | None:
    """Report changed inputs of ranks that returned; this precedes wrong numbers, which may result from the change."""
    if not task.keeps_inputs or task.returns_inputs or trouble(reply):
        return None
    shown = [(rank, reported) for rank, reported in enumerate(reply.ranks) if "value" in reported]
    return next((problem for rank, reported in shown if (problem := touched_input(rank, reported, task))), None)


def _verdict(check: Check, parts: set[str], problems: dict[str, Problem]) -> Verdict:
    shares = {part: check.parts.get(part, 1.0) for part in parts}
    whole = sum(shares.values())
    earned = sum(share for part, share in shares.items() if part not in problems) / whole
    points = round(check.points * earned, 4)
    if not problems:
        return Verdict(check.exercise, points, check.points, "Correct.")
    text = "\n".join(dict.fromkeys(problem.text for problem in problems.values()))
    if points:
        right = ", ".join(sorted(part for part in parts if part not in problems))
        text += f"\nRight: {right}."
    if check.hints and any(problem.hint for problem in problems.values()):
        text += f"\nHint: {check.hints[0]}"
    look = any(problem.look for problem in problems.values())
    return Verdict(check.exercise, points, check.points, clean(text), in_sight=_in_sight(check, problems), look=look)


def _in_sight(check: Check, problems: dict[str, Problem]) -> bool | None:
    """Whether a public case shows one of the problems; None if that is unknown."""
    if any(problem.case is case for problem in problems.values() for case in check.public):
        return True
    return None if any(problem.case is None for problem in problems.values()) else False


def clean(text: str, most: int = MOST_TEXT) -> str:
    """Remove control characters from a text that may contain a student's words, and cut it to `most` characters."""
    kept = "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)
    return kept if len(kept) <= most else kept[: most - 20] + "\n… (cut)"


def _name(case: Case) -> str:
    """Describe a case in the words of the visible check: `With 4 ranks, 15 numbers, bfloat16`."""
    words = [f"With {case['ranks']} ranks"]
    if "numbers" in case:
        words.append(f"{case['numbers']} numbers")
    if "dtype" in case:
        words.append(case["dtype"])
    if "subgroup" in case:
        words.append(f"the group of ranks {case['subgroup']}")
    if "ranks_per_node" in case:
        words.append(f"{case['ranks_per_node']} ranks per node")
    if "orders" in case:
        words.append(f"whose forwards use the layers in the orders {case['orders']}")
    if "calls" in case:
        words.append("called for two steps on the same model")
    return ", ".join(words)
