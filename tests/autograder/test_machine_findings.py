"""What `shardlab doctor` says about the sandbox: the level, and what would raise it."""

import pytest
from shardlab.commands.doctor import NOTE, OK

from autograder import doctor


@pytest.mark.parametrize(
    ("level", "platform", "bubblewrap", "state", "advice"),
    [
        (3, "linux", "/usr/bin/bwrap", OK, ""),
        (2, "linux", "/usr/bin/bwrap", OK, ""),
        (1, "linux", None, NOTE, "apt install bubblewrap"),
        (1, "linux", "/usr/bin/bwrap", NOTE, "leave the container"),
        (1, "linux", "/usr/bin/bwrap", NOTE, "docker: no daemon answers"),
        (1, "darwin", None, NOTE, "Linux machine"),
    ],
)
def test_the_level_and_its_remedy(monkeypatch, level, platform, bubblewrap, state, advice):
    monkeypatch.setattr(doctor, "level", lambda: level)
    monkeypatch.setattr(doctor.containers, "found", lambda: ("docker",))
    monkeypatch.setattr(doctor, "missing", lambda: "no level 2: docker: no daemon answers")
    monkeypatch.setattr(doctor.sys, "platform", platform)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: bubblewrap)
    finding = doctor.sandbox()
    assert finding.state == state and f"level {level}" in finding.value
    assert ("(docker)" in finding.value) == (level == 2)
    assert advice in finding.advice and bool(finding.advice) == bool(advice)
