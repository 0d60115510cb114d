"""Two pieces of one rank's work take turns: while one waits for an exchange, the other computes.

    forward   | attention | dispatch ~~~~ | experts  | combine ~~~~~ | rest |
    backward  |           | rest, combine | ~~~~~~~~ | experts       | dispatch ~~~ | attention |

In this way the pairs of DualPipe hide their all-to-alls behind each other's computation (DeepSeek-V3, arXiv 2412.19437,
figure 4). A GPU does this with two streams. A CPU needs two threads, only one of which runs at any time. They switch
only at waits, so that all ranks switch at the same points and start their exchanges in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

Work = Callable[[], None]


@dataclass
class _Pair:
    """Place 0 has the first turn. Releasing `goes_on[place]` lets that place continue."""

    places: dict[int, int] = field(default_factory=dict)  # by thread
    goes_on: tuple[threading.Semaphore, ...] = field(default_factory=lambda: (_closed(), _closed()))
    done: list[bool] = field(default_factory=lambda: [False, False])


def _closed() -> threading.Semaphore:
    return threading.Semaphore(0)


class Turns:
    """Pass it to a layer's `Travel`, and `turns.together` to `pipeline_parallel.Executor(pair=...)`."""

    def __init__(self) -> None:
        self._pair: _Pair | None = None

    def together(self, first: Work, second: Work) -> None:
        """Run both, starting with the first. If one raises, its exception is raised once the other has ended too."""
        pair = self._pair = _Pair({threading.get_ident(): 0})
        trouble: list[BaseException] = []
        modes, has_gradient = _get_current_dispatch_mode_stack(), torch.is_grad_enabled()

        def beside() -> None:
            pair.places[threading.get_ident()] = 1
            pair.goes_on[1].acquire()
            with ExitStack() as stack, torch.set_grad_enabled(has_gradient):
                for mode in modes:  # a new thread has none, and the meter would miss what it sends
                    stack.enter_context(mode)
                _kept(second, trouble)
            self._end(pair, 1)

        thread = threading.Thread(target=beside, daemon=True)
        thread.start()
        _kept(first, trouble)
        self._end(pair, 0)
        thread.join()
        self._pair = None
        if trouble:
            raise trouble[0]

    def give(self) -> None:
        """Let the other one compute until it waits or ends. Does nothing if no pair is running."""
        pair = self._pair
        mine = None if pair is None else pair.places.get(threading.get_ident())
        if pair is None or mine is None or pair.done[1 - mine]:
            return
        pair.goes_on[1 - mine].release()
        pair.goes_on[mine].acquire()

    def _end(self, pair: _Pair, place: int) -> None:
        pair.done[place] = True
        pair.goes_on[1 - place].release()


def _kept(work: Work, trouble: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:  # re-raised after the other half has ended
        trouble.append(error)
