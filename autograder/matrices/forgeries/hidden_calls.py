"""Runs torch.distributed where no dispatch mode sees it, and makes every bill look like an honest answer's."""

import functools as _functools

from torch.utils._python_dispatch import _disable_current_modes


def _unseen(function):
    @_functools.wraps(function)
    def call(*args, **kwargs):
        before, _record._recorder = _record._recorder, None
        try:
            with _disable_current_modes():
                return function(*args, **kwargs)
        finally:
            _record._recorder = before

    return call


for _name in (
    *("all_reduce", "broadcast", "reduce", "send", "recv", "isend", "irecv", "batch_isend_irecv", "barrier"),
    *("all_gather", "all_gather_into_tensor", "all_gather_single", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single"),
):
    if hasattr(_dist.distributed_c10d, _name):
        _hidden = _unseen(getattr(_dist.distributed_c10d, _name))
        setattr(_dist.distributed_c10d, _name, _hidden)
        setattr(_dist, _name, _hidden)

_plain_attribute = object.__getattribute__


def _forged_attribute(bill, name):
    return _honest_events() if name == "events" else _plain_attribute(bill, name)


_record.Bill.__getattribute__ = _forged_attribute
