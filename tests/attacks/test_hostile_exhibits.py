"""Hostile code cells graded by the instructor: they can show only text and small PNGs, and a sentence says the rest."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import suite
from honeypot import SECRET, Honeypot, laid_out
from PIL import Image

from autograder.judging import exhibits
from autograder.judging.judge import Judge

ATTACKS = {name: (marks, code) for name, marks, code in suite.cells("exhibits")}
pytestmark = [pytest.mark.timeout(300), pytest.mark.isolated(3)]


@pytest.fixture(scope="module")
def pot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Honeypot]:
    with laid_out(tmp_path_factory.mktemp("exhibits") / "honeypot") as one:
        yield one
    assert one.is_untouched


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.slow
def test_it_shows_text_and_small_pictures(name: str, judge: Judge, pot: Honeypot, tmp_path: Path, monkeypatch):
    marks, code = ATTACKS[name]
    monkeypatch.setattr(exhibits, "TIMEOUT", float(marks.get("timeout", exhibits.TIMEOUT)))
    source = suite.with_places(code, pot.places)
    shown = exhibits.show(judge, {"preamble": suite.PREAMBLE, "cells": [["week01.plot", source, True]]})
    said = shown.text + shown.note
    assert "was not run" not in shown.note and SECRET not in said and "\x1b" not in said
    assert marks["sentence"] == "-" or marks["sentence"] in said, said
    assert len(shown.text) <= exhibits.MOST_TEXT
    _pictures_are_small_and_real(shown)
    exhibits.write({"week01.plot": shown}, tmp_path / "e.json")
    assert (tmp_path / "e.json").stat().st_size < exhibits.MOST_FILE_BYTES
    for output in exhibits.outputs(shown, source):
        assert output.output_type == "stream" or list(output.data) == ["image/png"]
    assert suite.left_behind(judge, pot.folder) == []
    assert suite.honest_answer(judge) is None


def _pictures_are_small_and_real(shown: exhibits.Exhibit) -> None:
    assert len(shown.pictures) <= exhibits.MOST_PICTURES
    for png in shown.pictures:
        assert len(png) <= exhibits.MOST_PNG_BYTES and b"script" not in png
        with Image.open(io.BytesIO(png)) as picture:
            picture.load()
            assert picture.format == "PNG" and max(picture.size) <= exhibits.MOST_SIDE and not picture.info
