"""Commands on terminals that lack some characters."""

import os
import subprocess
import sys

import pytest
from shardlab.study.folder import begin
from shardlab.terminal import READABLE, SIGNS

COMMANDS = (
    ("shardlab.commands.cli", "schedule", "dualpipe", "--ranks", "4", "--microbatches", "8"),
    ("shardlab.commands.cli", "study", "--folder", "{folder}"),
    ("shardlab.commands.cli", "plan", "--model", "llama3-70"),
    ("autograder.cli", "grade", "week77"),
)


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1", "cp1252", "utf-8"])
def test_every_character_that_we_print_can_be_encoded(encoding):
    text = "".join(SIGNS) + "激活值 é ∑ 🏖"
    assert text.encode(encoding, READABLE).decode(encoding)
    assert "→ 3 × 4 … ≤".encode("ascii", READABLE) == b"-> 3 x 4 ... <="


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
def test_commands_end_without_a_traceback(encoding, tmp_path):
    begin(tmp_path / "w")
    for module, *arguments in COMMANDS:
        program = f"import sys, {module} as cli; sys.argv[0] = 'x'; cli.main()"
        asked = [sys.executable, "-c", program, *(one.format(folder=tmp_path / "w") for one in arguments)]
        environment = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
        ended = subprocess.run(asked, env=environment, capture_output=True, check=False)
        said = ended.stdout + ended.stderr
        assert b"Traceback" not in said and said.decode(encoding)
