"""An answer that uses a hidden module gets one sentence, in the grade and at the desk, and no hint of the exercise."""

import re
import sys
from dataclasses import replace
from types import ModuleType

import pytest

from autograder import check, weeks
from autograder.jobs import call, loading, masked
from autograder.judging.judge import hints_help
from autograder.matrices import kill_matrix

PLACES = {
    "week05.bill": ("costs", "ring_all_reduce_bytes", "tensor_parallel_bill(num_ranks, batch, *sizes)"),  # no ranks
    "week01.exchange": ("collectives", "ring_all_reduce", "exchange(tensor, *, group)"),  # on ranks
}
FORMS = {
    "import": "import shardlab.{module}\ndef {answer}: return shardlab.{module}.{name}(1)",
    "import with an alias": "import shardlab.{module} as other\ndef {answer}: return other.{name}(1)",
    "import of a name": "from shardlab.{module} import {name}\ndef {answer}: return {name}(1)",
    "import of a name with an alias": "from shardlab.{module} import {name} as other\ndef {answer}: return other(1)",
    "import inside": "def {answer}:\n    from shardlab.{module} import {name}\n    return {name}(1)",
    "attribute": "from shardlab import {module}\ndef {answer}: return {module}.{name}(1)",
    "attribute of the package": "import shardlab\ndef {answer}: return shardlab.{module}.{name}(1)",
    "attribute of an alias": "from shardlab import {module} as other\ndef {answer}: return other.{name}(1)",
    "renamed": "from shardlab import {module}\nother = {module}\ndef {answer}: return other.{name}(1)",
    "helper": "from shardlab import {module}\n"
    "def helper(value): return [{module}.{name}(one) for one in value]\ndef {answer}: return helper([1])",
    "helper that imports": "def helper(value):\n    import shardlab.{module} as other\n    return other.{name}(value)\n"
    "def {answer}: return helper(1)",
    "local class": "from shardlab import {module}\nclass Helper:\n    def sent(self): return {module}.{name}(1)\n"
    "def {answer}: return Helper().sent()",
    "error that is passed on": "from shardlab import {module}\ndef {answer}:\n"
    "    try:\n        return {module}.{name}(1)\n    finally:\n        pass",
}


def source_of(exercise, form):
    module, name, answer = PLACES[exercise]
    return FORMS[form].format(module=module, name=name, answer=answer)


def sentence_for(exercise):
    return f"shardlab.{PLACES[exercise][0]} is not available to this answer: write what you need from it yourself."


def graded(judge, exercise, source, others=()):
    cells = [*([name, text, False] for name, text in others), [exercise, source, True]]
    found = weeks.find(exercise)
    return judge.judge(found, {"preamble": kill_matrix.PREAMBLE, "cells": cells}, 1, found.public[:1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("exercise", PLACES)
def test_the_grade_names_the_module_and_the_line(judge, exercise, form):
    verdict = graded(judge, exercise, source_of(exercise, form))
    assert verdict.points == 0 and not verdict.look
    first, *rest = verdict.text.split("\n")
    assert first == sentence_for(exercise)
    assert "Hint" not in verdict.text
    assert f'File "<{exercise}>"' in rest[1] and "Error" not in verdict.text
    assert "shardlab/" not in verdict.text and "autograder/" not in verdict.text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("exercise", PLACES)
def test_the_desk_says_the_same(capsys, monkeypatch, exercise, form):
    offered = []
    monkeypatch.setattr("shardlab.study.offer_hint", lambda *one: offered.append(one))
    space = {"__name__": "__main__"}
    exec(compile(source_of(exercise, form), "/tmp/ipykernel_1/1.py", "exec"), space)
    answer = space[PLACES[exercise][2].split("(")[0]]
    assert check(exercise, answer, cases=weeks.find(exercise).public[:1]) == 0
    shown = capsys.readouterr().out
    assert shown.split("\n")[1] == sentence_for(exercise)
    assert "Hint" not in shown and not offered


def test_an_answer_that_calls_another_answer_gets_the_same_sentence(judge):
    uses = "def layer_seconds(num_ranks, *sizes): return 1, tensor_parallel_bill(num_ranks, 1, 2, 3, 4)[0]"
    others = [("week05.bill", source_of("week05.bill", "attribute"))]
    verdict = graded(judge, "week05.why-eight", uses, others)
    assert verdict.text.startswith(sentence_for("week05.bill"))
    assert "in layer_seconds" in verdict.text and "in tensor_parallel_bill" in verdict.text
    assert "Hint" not in verdict.text


def test_all_parts_of_a_check_say_it_once(judge):
    source = "from shardlab import collectives\ndef predict_trace(*_): return collectives.f"
    found = weeks.find("week06.reading")
    answer = {"preamble": kill_matrix.PREAMBLE, "cells": [["week06.reading", source, True]]}
    verdict = judge.judge(found, answer, 1)
    assert len(found.parts) > 1 and verdict.points == 0
    assert verdict.text.count("is not available to this answer") == 1


def test_a_check_that_waits_for_an_error_says_it_too(judge):
    source = "from shardlab import collectives\ndef there_and_back(*_, group): raise ValueError(collectives.f)"
    verdict = graded(judge, "week06.operators", source)
    assert re.match(r"shardlab\.\w+ is not available to this answer", verdict.text)


@pytest.mark.parametrize("exercise", PLACES)
def test_an_answer_that_does_without_the_module_is_judged(judge, exercise):
    module, _, answer = PLACES[exercise]
    source = f"def {answer}:\n    try:\n        from shardlab import {module}\n        return {module}.f(1)\n"
    source += "    except (ImportError, AttributeError):\n        return [1.0, 2.0, 3.0]"
    verdict = graded(judge, exercise, source)
    assert "not available" not in verdict.text and "Hint" in verdict.text


def test_a_function_of_an_emptied_module(monkeypatch):
    module = ModuleType("shardlab.made_up")
    exec("def outer(): return inner()\ndef inner(): return 1", module.__dict__)
    outer = module.outer
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(masked, "loaded", lambda: (["shardlab.made_up"], len(sys.modules)))
    monkeypatch.setitem(sys.modules, "shardlab.made_up", module)
    masked.mask(["shardlab.made_up"])
    with pytest.raises(NameError) as caught:
        outer()
    sentence = "shardlab.made_up is not available to this answer: write what you need from it yourself."
    assert masked.said_in(call.told(caught.value)).startswith(sentence)
    assert not hasattr(module, "inner") and not hasattr(module, "__name__")
    assert set(vars(module)) == {"__getattr__"}


@pytest.mark.parametrize("text", ["", "NameError: name 'inner' is not defined", "ValueError: costs is not available"])
def test_other_errors_stay_as_they_are(text):
    assert masked.said_in(f"Traceback (most recent call last):\n  File x\n{text}") is None


def test_no_hint_follows_when_the_function_was_not_called(judge, monkeypatch):
    ask = judge._ask
    assert "busy machine" in loading.COMPLAINT and "try again" in loading.COMPLAINT
    monkeypatch.setattr(
        judge, "_ask", lambda job: replace(ask(job), ranks=[{}] * job.request.ranks, report=loading.COMPLAINT)
    )
    verdict = graded(judge, "week01.exchange", "def exchange(tensor, *, group): return tensor")
    assert loading.COMPLAINT in verdict.text and "Hint" not in verdict.text
    assert not hints_help(verdict.text)
