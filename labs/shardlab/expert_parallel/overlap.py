"""Two microbatches in one layer: while the rows of one are in transit, the experts compute on the other.

    dispatch A |  experts A  |  experts B  | combine B
               | dispatch B  |  combine A  |

Because `start` and `wait` are adjoint, the backward runs in the reverse order: first the experts of B while rows of A
are in transit, then the experts of A while rows of B are. DualPipe pairs a forward's exchanges with a backward's
experts in the same way (DeepSeek-V3, arXiv 2412.19437, section 3.2.1).
"""

from __future__ import annotations

from torch import Tensor

from shardlab.expert_parallel.dispatch import start_combine, start_dispatch
from shardlab.expert_parallel.layer import ParallelMoE
from shardlab.expert_parallel.two_level import TwoLevels


def overlapped(layer: ParallelMoE, a_BSH: Tensor, b_BSH: Tensor) -> tuple[Tensor, Tensor]:
    """Compute layer(a) and layer(b), hiding exchanges behind the other's experts. The results are the same.

    Raises the same ValueError on every rank for a two-level layer, whose second dispatch waits for the first.
    """
    a, load_a = layer.prepared(a_BSH), layer.load_E
    b = layer.prepared(b_BSH)
    layer.load_E = load_a + layer.load_E
    to_a, to_b = a.exchange, b.exchange
    if isinstance(to_a, TwoLevels) or isinstance(to_b, TwoLevels):
        raise ValueError("two levels cannot overlap, because the second dispatch waits for the first: use one level")
    rows_a = start_dispatch(a.tokens.x_TH, to_a)()

    dispatching_b = start_dispatch(b.tokens.x_TH, to_b)
    combining_a = start_combine(layer.computed(rows_a, to_a.chunks), a.tokens.weights_TK, to_a)
    combining_b = start_combine(layer.computed(dispatching_b(), to_b.chunks), b.tokens.weights_TK, to_b)

    done_a = layer.at_home(combining_a(), a)
    done_b = layer.at_home(combining_b(), b)
    return done_a.view_as(a_BSH), done_b.view_as(b_BSH)
