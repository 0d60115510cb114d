"""`check` in a notebook: the same judge, sandbox and feedback as for the grade, on the visible cases."""

from __future__ import annotations

import atexit
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from shardlab import study
from shardlab.ranks.travel import by_value, cell_sources
from shardlab.ranks.warm import IDLE_LIMIT
from shardlab.study.records import digest

from autograder import weeks
from autograder.checks.base import Case, Check
from autograder.judging.card import Result, card
from autograder.judging.compared import Compared, comparing
from autograder.judging.judge import Judge, Verdict, hints_help
from autograder.judging.keeping import keep_passed
from autograder.judging.measured import Measured, noting
from autograder.judging.told import told

PUBLIC_SEED = 0  # the visible cases have the same numbers in every run
MOST_RANKS = 8
NOT_ANSWERED = "Not answered yet:"  # the beginning of the judge's sentence about an unchanged answer cell
TRY_AGAIN = (
    " Nothing was counted. Run the cell again; if this happens again, restart the kernel, then run `shardlab doctor`."
)

_judges: dict[int, Judge] = {}
_one_at_a_time: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)  # for a sandbox, which runs one request
_timers: dict[int, threading.Timer] = {}  # one that ends an idle sandbox, by process


class Points(float):
    """The result of `check`: a number that nbgrader's Validate reads as text, and that a notebook does not display.

    Otherwise a notebook would show the bare number below the verdict, which already gives the points.
    """

    def _repr_html_(self) -> str:
        return ""


def check(exercise: str, *answers: Any, cases: Sequence[Case] | None = None, hint: int = 1) -> Points:
    """Run an answer on the given cases and show what is right and what is not. Returns the points so far.

    >>> check("week01.exchange", exchange, cases=[{"ranks": 2, "numbers": 4}])

    Grading draws fresh cases. `hint=2` and `hint=3` also print more detailed hints. Raises ValueError for
    an unknown exercise, hint or case; a wrong answer does not raise.
    """
    found = weeks.find(exercise)
    if hint not in range(1, len(found.hints) + 1):
        raise ValueError(f"hint={hint!r}: {exercise} has hints 1 to {len(found.hints)}")
    chosen = [dict(case) for case in (cases if cases is not None else found.public)]
    _refuse_bad_cases(found, chosen)
    answer = {"pickle": _pickle(found, answers)}
    measured: list[Measured] = []
    compared: list[Compared] = []
    completed = [_complete(found, case) for case in chosen]
    with _one_at_a_time[os.getpid()]:
        watched = comparing(noting(found, measured), compared)
        verdict = _judge().judge(watched, answer, PUBLIC_SEED, completed)
        _end_when_idle()
    hints = {} if verdict.is_right else {number: found.hints[number - 1] for number in range(2, hint + 1)}
    notes = []
    if is_judged := not (verdict.fault or verdict.look):
        whole = all(case in completed for case in found.public)
        notes.append(_record(found, verdict, answers, hint, measured, whole=whole))
        notes.append(keep_passed(exercise) if verdict.is_right and whole else "")
    _show(found, verdict, len(chosen), hints, [note for note in notes if note], compared)
    if is_judged and not verdict.is_right:
        _offer_hint(found, verdict, hints)
    return Points(verdict.points)


def _show(
    found: Check,
    verdict: Verdict,
    num_cases: int,
    hints: Mapping[int, str],
    notes: Sequence[str],
    compared: Sequence[Compared],
) -> None:
    """Show a card in a notebook; print plain text elsewhere, which a notebook also keeps in its file."""
    text = "\n".join(
        [shown(verdict, num_cases), *(f"Hint {number}: {words}" for number, words in hints.items()), *notes]
    )
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    right = _right_on(num_cases) if verdict.is_right else ""
    advice = TRY_AGAIN.strip() if verdict.fault or verdict.look else ""
    result = Result(verdict, right, len(found.hints), hints, notes, compared, _is_blank(verdict), advice)
    display({"text/plain": text, "text/html": card(result)}, raw=True)


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel, whose outputs may be HTML; a process that it forked is not."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return kernel is not None and kernel.session.pid == os.getpid()


def _offer_hint(found: Check, verdict: Verdict, hints: Mapping[int, str]) -> None:
    """Show a button for hints that the card does not show, if there are any that can help; never raises."""
    if not hints_help(verdict.text):
        return
    levels = {*hints} | ({1} if told(verdict.text).hint else set())
    if len(levels) < len(found.hints):
        with suppress(Exception):
            study.offer_hint(verdict.exercise, levels)


def _record(
    found: Check, verdict: Verdict, answers: Sequence[Any], hint: int, measured: list[Measured], *, whole: bool
) -> str:
    """Record a check in the learner's folder, if there is one; returns "" or why it was not recorded. Never raises."""
    shown_hint = 0 if verdict.is_right or _is_blank(verdict) else hint
    facts = {"points": verdict.points, "max": verdict.max, "answer": digest(answers), "whole": whole}
    facts |= {"hint": shown_hint} if shown_hint else {}
    facts |= {"blank": True} if _is_blank(verdict) else {}
    facts |= {"measured": measured} if measured else {}
    return study.note("check", exercise=verdict.exercise, **facts)


def _is_blank(verdict: Verdict) -> bool:
    return not verdict.points and NOT_ANSWERED in verdict.text


def shown(verdict: Verdict, num_cases: int) -> str:
    """A verdict as a notebook shows it: a mark, the points, and the feedback."""
    mark = "✓" if verdict.is_right else "✗"
    head = f"{mark} {verdict.exercise}: {verdict.points:g} of {verdict.max:g} points"
    if verdict.is_right:
        return f"{head}. {_right_on(num_cases)}"
    return f"{head}.\n{verdict.text}{TRY_AGAIN if verdict.fault or verdict.look else ''}"


def _right_on(num_cases: int) -> str:
    cases = "1 case" if num_cases == 1 else f"{num_cases} cases"
    return f"Right on {cases}; the grade draws fresh ones."


def _judge() -> Judge:
    """This process's judge; a forked process gets its own."""
    pid = os.getpid()
    if pid not in _judges:
        _judges[pid] = Judge()
        atexit.register(close)
    return _judges[pid]


def _end_when_idle() -> None:
    """End this process's sandbox, which holds memory, when there has been no check for `IDLE_LIMIT` seconds."""
    if (before := _timers.get(os.getpid())) is not None:
        before.cancel()
    timer = _timers[os.getpid()] = threading.Timer(IDLE_LIMIT, lambda: _close_unless_used(timer))
    timer.daemon = True
    timer.start()


def _close_unless_used(timer: threading.Timer) -> None:
    with _one_at_a_time[os.getpid()]:
        if _timers.get(os.getpid()) is timer:  # no check has set a new one meanwhile
            close()


def close() -> None:
    """End this process's sandbox; the next check starts a new one."""
    if (judge := _judges.pop(os.getpid(), None)) is not None:
        judge.__exit__()


def _pickle(found: Check, answers: tuple) -> bytes:
    """Pickle the answers by name for the sandbox: functions by their own name, values by position."""
    import cloudpickle

    named = {}
    for place, answer in enumerate(answers):
        name = getattr(answer, "__name__", None)
        named[name if name in found.names else found.names[min(place, len(found.names) - 1)]] = answer
    try:
        with ExitStack() as modules:
            for answer in answers:
                modules.enter_context(by_value(answer))
            return cloudpickle.dumps((named, cell_sources()))
    except Exception as error:
        raise ValueError(
            f"the answer to {found.exercise} cannot be sent to the sandbox: {error}. "
            "Create such an object (an open file, a lock, a process group) inside the function."
        ) from None


def _refuse_bad_cases(found: Check, cases: list[Case]) -> None:
    if not cases:
        raise ValueError(f"cases=[] checks nothing: pass cases such as {found.public[0]}")
    known = {key for case in found.public for key in case} | {"dtype", "subgroup", "ranks_per_node", "matrix", "part"}
    needed = set.intersection(*(set(case) for case in found.public)) - {"part"}
    for case in cases:
        if not needed <= set(case) <= known:
            raise ValueError(f"the case {case} does not fit {found.exercise}: use the keys of {found.public[0]}")
        if "ranks" in case and not (isinstance(case["ranks"], int) and 1 <= case["ranks"] <= MOST_RANKS):
            raise ValueError(f"ranks={case['ranks']!r} in a case: use 1 to {MOST_RANKS}")


def _complete(found: Check, case: Case) -> Case:
    """Add the part of the check's public cases to a visible case that names none."""
    part = found.public[0].get("part")
    return case if part is None or "part" in case else case | {"part": part}
