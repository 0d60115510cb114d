"""Exhibits of the bug museum whose numbers come from the installed megatron-core must match docs/bug-museum.md."""

import sys

import pytest

from tests.museum import page
from tests.museum.exhibits import EXHIBITS

PARAMETERS = [
    pytest.param(number, one, id=one.symptom.__name__) for number, one in enumerate(EXHIBITS, 1) if one.needs_megatron
]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core needs Linux and Python < 3.14"
)
@pytest.mark.parametrize(("number", "exhibit"), PARAMETERS)
def test_an_exhibit_of_megatron_says_what_is_measured(number, exhibit):
    assert page.section(number, exhibit) in page.PAGE.read_text(encoding="utf-8")
