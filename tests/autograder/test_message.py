"""Messages across the trust boundary are validated field by field on arrival."""

from dataclasses import asdict, fields

import pytest

from autograder.jobs import message, plain
from autograder.jobs.message import End, Report, Request

REQUEST = Request("on_rank", 2, 6.0, 1 << 30, 1 << 30, ["f"], "f", [None, [0, 1]])
REPORT = Report([End(b"\x00", None, 0, 5), End(None, "it ended", -9, None)], "late", True, 1.5, 12, [[0, 1]], None)
WRONG = [1.5, "text", b"bytes", [3], {"a": 1}, None, True]


@pytest.mark.parametrize("sent", [REQUEST, REPORT, Report(lost="no answer")], ids=lambda one: type(one).__name__)
def test_a_message_arrives_as_it_was_sent(sent):
    assert message.decode(type(sent), message.encode(sent)) == sent


@pytest.mark.parametrize("change", [{"more": 1}, {"ends": [{"result": None}]}, {"ends": [1]}, {"ends": None}])
def test_a_report_of_other_fields_is_refused(change):
    with pytest.raises(plain.NotPlain):
        message.decode(Report, plain.encode(asdict(REPORT) | change))


def test_a_missing_field_and_what_is_no_message_are_refused():
    rest = asdict(REPORT)
    del rest["touched"]
    for value in (rest, [], 1, None):
        with pytest.raises(plain.NotPlain, match="not a Report"):
            message.decode(Report, plain.encode(value))


@pytest.mark.parametrize("name", [one.name for one in fields(Report)])
def test_a_field_of_another_type_is_refused(name):
    right = getattr(REPORT, name)
    refused = 0
    for value in WRONG:
        try:
            found = message.decode(Report, plain.encode(asdict(REPORT) | {name: value}))
        except plain.NotPlain:
            refused += 1
        else:
            assert isinstance(getattr(found, name), type(right) | list | None)
    assert refused >= 4
