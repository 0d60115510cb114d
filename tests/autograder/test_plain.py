"""Plain data crosses the boundary unchanged, and nothing else crosses."""

from contextlib import suppress

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.jobs import plain

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner), max_leaves=12
)


@given(values)
@settings(max_examples=100, deadline=None)
def test_values_come_back_equal(value):
    assert plain.decode(plain.encode(value)) == value


@pytest.mark.parametrize("dtype", list(plain.DTYPES.values()))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_tensors_come_back_bit_for_bit(dtype, shape):
    tensor = torch.arange(max(1, int(torch.tensor(shape).prod()))).to(dtype)[: int(torch.tensor(shape).prod())]
    tensor = tensor.reshape(shape) if shape else torch.tensor(1).to(dtype)
    back = plain.decode(plain.encode((tensor, [tensor])))
    assert back[0].dtype == dtype and back[0].shape == tensor.shape and torch.equal(back[0], tensor)
    assert isinstance(back, tuple) and isinstance(back[1], list)


@pytest.mark.parametrize(
    ("value", "due"),
    [
        (numpy.float64(0.5), 0.5),
        ({"tp": numpy.int64(3)}, {"tp": 3}),
        (numpy.bool_(True), True),
        ([numpy.arange(3), (numpy.int32(1),)], [[0, 1, 2], (1,)]),
        (numpy.array(2.5), 2.5),
    ],
    ids=repr,
)
def test_numbers_of_numpy_come_back_as_pythons(value, due):
    back = plain.decode(plain.encode(value))
    assert back == due and type(back) is type(due)


class AlwaysEqual(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class FakeTensor(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "value",
    [
        AlwaysEqual(1),
        FakeTensor(),
        {1: 2},
        {3},
        object(),
        print,
        torch.ones(2).to_sparse(),
        numpy.array([object()]),
        numpy.zeros(plain.MOST_NUMPY_NUMBERS + 1),
        numpy.longdouble(1),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_only_looks_plain_is_refused(value):
    with pytest.raises(plain.NotPlain):
        plain.encode(value)


def test_deep_nesting_is_refused():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(plain.NotPlain, match="deeper"):
        plain.encode(value)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_noise_is_no_message(data):
    with pytest.raises(plain.NotPlain):
        plain.decode(data)


@given(st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_a_changed_byte_gives_a_value_or_a_refusal_but_no_crash(place, byte):
    data = bytearray(plain.encode({"a": [torch.ones(3), 1.5], "b": b"xyz"}))
    data[place % len(data)] = byte
    with suppress(plain.NotPlain):
        plain.decode(bytes(data))
