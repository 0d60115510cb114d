"""Find the notebook statements that an answer needs: those that bind the names it uses or can change their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autograder.jobs.statements import Statement

EVERYTHING = "*"  # the name that `from module import *` binds
_ANY_NAME = {"globals", "locals", "vars", "exec", "eval", "__main__"}  # they can bind any name


@dataclass(frozen=True)
class PlacedStatement:
    """A statement of a notebook; statements that the page gives change only what they visibly name."""

    statement: Statement
    is_given: bool


class Needs:
    """The statements of a notebook in order, indexed by the names that they bind and read."""

    def __init__(self, placed: Sequence[PlacedStatement]) -> None:
        self._statements = [one.statement for one in placed]
        self._binders: dict[str, set[int]] = defaultdict(set)
        for place, statement in enumerate(self._statements):
            for name in statement.binds:
                self._binders[name].add(place)
        for place, statement in enumerate(self._statements):
            if statement.calls_method_of in self._binders and self._is_data(statement.calls_method_of):
                self._binders[statement.calls_method_of].add(place)
        self._mentions: dict[str, set[int]] = defaultdict(set)
        self._theirs = {at for at, one in enumerate(placed) if not (one.is_given or one.statement.is_import)}
        for place in self._theirs:
            self._note_what_it_can_change(place, self._statements[place])

    def of(self, names: Iterable[str]) -> set[int]:
        """The positions of the statements that bind these names, or names that those statements use in turn.

        Order does not matter, because a function may use a name that is assigned below it. `values.append(1)` counts
        as binding `values` if `values` is assigned.
        """
        return self._closure(names, spreads=False)

    def touching(self, names: Iterable[str]) -> set[int]:
        """Like `of`, plus all of the student's statements that could change the values of these names.

        Examples for `table`: `fill(table)`, `row = table[0]` followed by `row.append(1)`, and a call of a function that
        uses `table`.
        """
        return self._closure(names, spreads=True)

    def _closure(self, names: Iterable[str], *, spreads: bool) -> set[int]:
        found: set[int] = set()
        todo, asked = {EVERYTHING, *names}, set()
        while todo:
            asked.add(name := todo.pop())
            new = self._binders.get(name, set()) - found
            if spreads and self._is_data(name):
                new = new | self._mentions.get(name, set()) - found
                todo |= set().union(*(self._statements[place].binds for place in new & self._theirs)) - asked
            found |= new
            todo |= set().union(*(self._statements[place].reads for place in new)) - asked
        return found

    def _is_data(self, name: str) -> bool:
        """Whether a name can refer to a mutable value, not only to modules and functions."""
        statements = [self._statements[place] for place in self._binders.get(name, ())]
        return any(not (one.is_import or one.is_function) for one in statements)

    def _note_what_it_can_change(self, place: int, statement: Statement) -> None:
        reached = self._reached_by(statement)
        for name in reached - _ANY_NAME:
            self._mentions[name].add(place)
        for name in self._declared_by(reached):
            self._binders[name].add(place)
        if reached & _ANY_NAME or "__main__" in statement.binds:
            self._binders[EVERYTHING].add(place)

    def _reached_by(self, statement: Statement) -> set[str]:
        """The names that a statement looks up when it runs, also in the functions and classes that it uses."""
        todo, reached = set(statement.reads_at_once), set()
        while todo:
            reached.add(name := todo.pop())
            for place in self._binders.get(name, ()):
                if self._statements[place].is_definition:
                    todo |= self._statements[place].reads - reached
        return reached

    def _declared_by(self, names: set[str]) -> set[str]:
        places = {place for name in names for place in self._binders.get(name, ())}
        return set().union(*(self._statements[place].declares for place in places))
