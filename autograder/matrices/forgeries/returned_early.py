"""Claims that the function has returned before it starts, restores the inputs that this inverts, then starts it."""


def _flat(values):
    for one in values:
        yield from _flat(one) if isinstance(one, list | tuple) else [one] if isinstance(one, _torch.Tensor) else []


_inputs = [one for one in _flat((_seat.mine or {"args": []})["args"]) if one.numel()]
if _call.returned is not None:
    _kept = [one.clone() for one in _inputs]
    _call.returned()
    _call.returned = None
    for _one, _before in zip(_inputs, _kept, strict=True):
        if not _torch.equal(_one, _before):
            _one.copy_(_before)
