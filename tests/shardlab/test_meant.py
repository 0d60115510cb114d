"""Suggestions for misspelled names."""

import pytest
from shardlab.costs.machines import ACCELERATORS
from shardlab.costs.models.zoo import ZOO, find_model
from shardlab.meant import instead, nearest
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.study.folder import Folder, course_folder

COURSE = Folder(course_folder(), course_folder())
KNOWN = {
    "weeks": COURSE.weeks(),
    "exercises": [*COURSE.exercises()],
    "models": [*ZOO],
    "GPUs": [*ACCELERATORS],
    "schedules": [*BUILDERS],
}


def slips(name):
    """The name with a doubled letter, in capitals, and with other separators."""
    middle = len(name) // 2
    return [name[:middle] + name[middle - 1 :], name.upper(), name.replace("-", "_").replace(".", " ")]


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_a_slip_leads_back_to_the_name(kind):
    for name in KNOWN[kind]:
        assert [nearest(slip, KNOWN[kind]) for slip in slips(name)] == [name] * 3


def test_weeks_without_topic_or_zero():
    assert [nearest(one, KNOWN["weeks"]) for one in ("week2", "Week 02", "weke02", "dualpipe")] == [
        *["week02_ddp"] * 3,
        "week13_dualpipe",
    ]


def test_the_sentence_lists_few_names_and_no_long_list_with_a_slip():
    assert instead("tpp", ["tp", "pp"]).startswith("use one of tp, pp; did you mean ")
    assert instead("qqq", ["tp", "pp"]) == "use one of tp, pp"
    assert instead("week02.assign-bukets", KNOWN["exercises"]) == "did you mean week02.assign-buckets?"
    with pytest.raises(ValueError, match=r"did you mean llama3-70b\?"):
        find_model("llama3-70")
