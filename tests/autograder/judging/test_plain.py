""""""

import json
from collections import Counter, namedtuple
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.jobs import plain
from tests.fixed_set import HOSTILE_VALUES

# ---- Plain data crosses the boundary unchanged, and nothing else can cross it. ---------------------------------------

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
    ids=lambda value: type(value).__name__,
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


def message(header: bytes, rest: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + rest


MANY = plain.MOST_MARKS // 2
HOSTILE = {
    "a float out of range": b'{"float": "0x1p99999"}',
    "a float that is a list": b'{"float": []}',
    "an integer of ten thousand digits": b"9" * 10_000,
    "an integer of more than 4096 bits": b"9" * 1300,
    "400,000 dimensions": b'{"tensor": ["bool", [' + b",".join([b"1"] * 400_000) + b"], 1]}",
    "nine dimensions": b'{"tensor": ["bool", [1, 1, 1, 1, 1, 1, 1, 1, 1], 1]}',
    "a shape that overflows": b'{"tensor": ["float32", [0, 1099511627775, 1099511627775, 1099511627775], 0]}',
    "sizes without data": b'{"tensor": ["float32", [0, 67108865], 0]}',
    "a size that is a bool": b'{"tensor": ["bool", [true], 1]}',
    "more bytes than were sent": b'{"tensor": ["uint8", [1000], 1000]}',
    "a tensor of four words": b'{"tensor": ["bool", [], 1, 1]}',
    "a list that is a text": b'{"list": "abc"}',
    "a dict that is a list": b'{"dict": [1]}',
    "a duplicate key": b'{"dict": {"a": 1, "a": 2}}',
    "a duplicate kind": b'{"float": "0x1p1", "float": "0x1p2"}',
    "a negative length": b'{"bytes": -1}',
    "a text that is a number": b'{"text": 1}',
    "deep lists": b'{"list":[' * 100_000,
    "deep brackets": b"[" * 300_000,
    "many small nodes": b'{"list":[' + b"{}," * MANY + b"{}]}",
    "many small tensors": b'{"list":[' + b",".join([b'{"tensor":["bool",[0],0]}'] * 60_000) + b"]}",
    "another encoding": "[]".encode("utf-32"),
    "half a character": b'"\xed\xa0\x80"',
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_header_is_refused_and_nothing_else_happens(header):
    with pytest.raises(plain.NotPlain):
        plain.decode(message(header, b"\xff"))


def test_a_truth_value_is_true_or_false():
    with pytest.raises(plain.NotPlain, match="neither true nor false"):
        plain.decode(message(b'{"tensor": ["bool", [2], 2]}', b"\x01\x02"))


def test_a_header_holds_fewer_values_than_take_a_second_to_read():
    ones = [1] * (plain.MOST_MARKS - 2)
    assert plain.decode(plain.encode(ones)) == ones
    with pytest.raises(plain.NotPlain, match="more numbers"):
        plain.encode([1] * (plain.MOST_MARKS + 1))
    with pytest.raises(plain.NotPlain, match="more numbers"):
        plain.decode(message(b'{"list":[' + b"1," * plain.MOST_MARKS + b"1]}"))


def test_a_large_array_of_numpy_crosses_as_text():
    rows = numpy.random.default_rng(0).random((plain.MOST_NUMPY_NUMBERS // 2, 2))
    assert plain.decode(plain.encode(rows)) == rows.tolist()


@pytest.mark.parametrize("text", ["中" * 1_600_000, "\ud800", "a\ud800" * 2000, "\\\ud800", '"\n' * 3000])
def test_texts_come_back_as_they_were_however_long(text):
    assert plain.decode(plain.encode([text, 1])) == [text, 1]


class Hollow(dict):
    pass


def meta_tensor():
    return torch.empty(3, device="meta")


def circle():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "make",
    [meta_tensor, circle, lambda: 10**5000, lambda: torch.ones([1] * 9), lambda: Hollow(a=1), lambda: 1j],
    ids=["meta", "circle", "huge integer", "nine dimensions", "a dict's subclass", "complex"],
)
def test_what_cannot_be_sent_is_refused_by_name(make):
    with pytest.raises(plain.NotPlain):
        plain.encode(make())


kinds = st.sampled_from(["float", "bytes", "text", "tensor", "list", "tuple", "dict", "set", ""])
sizes = st.sampled_from([0, 1, 2, 3, -1, 1 << 26, 1 << 40, 1 << 70, True, None, 0.5, "1"])
tensor_like = st.tuples(st.sampled_from([*plain.DTYPES, "complex64", 3]), st.lists(sizes, max_size=12), sizes).map(list)
hostile_nodes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | sizes | st.just("0x1p99999"),
    lambda inner: (
        st.tuples(kinds, inner | tensor_like).map(lambda pair: dict([pair]))
        | st.tuples(kinds, st.lists(inner, max_size=4)).map(lambda pair: dict([pair]))
        | st.dictionaries(kinds | st.text(max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.slow
@given(hostile_nodes, st.binary(max_size=40))
@HOSTILE_VALUES
def test_no_header_makes_the_reader_fail_otherwise(node, rest):
    with suppress(plain.NotPlain):
        again = plain.decode(message(json.dumps(node).encode(errors="backslashreplace"), rest))
        plain.encode(again)  # what was decoded can be encoded


class Color(Enum):
    RED = 3


ROWS = torch.arange(24.0).reshape(4, 6)
ODD = {
    "one element of a column": torch.zeros(1, 5)[:, 3],
    "every third": torch.arange(10.0)[::3],
    "transposed": ROWS.t(),
    "a column": ROWS[:, 1],
    "repeated": torch.ones(1).expand(4),
    "parameter": torch.nn.Parameter(ROWS.clone()),
    "with an autograd graph": ROWS.clone().requires_grad_() * 2,
    "one number": torch.tensor(3),
    "none": torch.ones(2, 0),
    "of a conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "half": torch.zeros(1, 5, dtype=torch.bfloat16)[:, 3:4],
    "truth": torch.tensor([[True], [False]]).t(),
    "inner": ROWS[1:2, 2:3],
    "permuted": torch.arange(24).view(2, 3, 4).permute(2, 0, 1)[1:3],
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", ODD)
def test_a_tensor_is_its_numbers_whatever_its_strides(kind):
    came = plain.decode(plain.encode(ODD[kind]))
    assert torch.equal(came, ODD[kind].detach()) and came.dtype == ODD[kind].dtype and came.shape == ODD[kind].shape


@pytest.mark.parametrize(
    ("value", "due"),
    [
        (Fraction(4, 2), 2),
        (Fraction(1, 4), 0.25),
        (Decimal("2.5"), 2.5),
        (Decimal(7), 7),
        (range(3), [0, 1, 2]),
        (map(int, "12"), [1, 2]),
        ((n for n in "ab"), ["a", "b"]),
        ({"a": 1}.values(), [1]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (namedtuple("Pair", "a b")(1, 2), (1, 2)),
        (torch.Size([2, 3]), (2, 3)),
        (Color.RED, 3),
    ],
)
def test_numbers_and_lists_of_other_kinds_count_as_what_they_are(value, due):
    assert plain.decode(plain.encode(value)) == due


def test_a_generator_without_end_is_refused():
    with pytest.raises(plain.NotPlain):
        plain.encode(n for n in iter(int, 1))
