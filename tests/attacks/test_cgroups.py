"""Control groups are created only where we may create them, and are removed; folders stand in for Linux's."""

from pathlib import Path

from autograder.sandboxes import cgroups


def version_1(tmp_path: Path, path: str) -> tuple[Path, Path]:
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    for controller in ("pids", "memory", "freezer"):
        (mounts / controller / path.lstrip("/")).mkdir(parents=True)
    own.write_text(f"3:pids:{path}\n2:memory:{path}\n1:freezer:{path}\n")
    return mounts, own


def test_at_the_top_of_version_1_each_controller_has_a_folder(tmp_path: Path):
    group = cgroups.ControlGroup(*version_1(tmp_path, "/"))
    assert sorted(folder.parent.name for folder in group.folders) == ["memory", "pids"]
    assert all(str(folder) in " ".join(group.wrapper()) for folder in group.folders)
    group.close()
    assert not any(folder.exists() for folder in group.folders)


def test_the_group_of_a_manager_is_left_alone_unless_told_otherwise(tmp_path: Path, monkeypatch):
    places = version_1(tmp_path, "/manager/of-containers")
    group = cgroups.ControlGroup(*places)
    assert group.folders == [] and group.wrapper() == []
    monkeypatch.setenv("CONTROL_GROUPS", "nested")
    nested = cgroups.ControlGroup(*places)
    assert {folder.parent.name for folder in nested.folders} == {"of-containers"}
    nested.close()


def test_version_2_takes_the_controllers_that_are_passed_on(tmp_path: Path, monkeypatch):
    (tmp_path / "own").write_text("0::/delegated\n")
    parent = tmp_path / "mounts" / "delegated"
    parent.mkdir(parents=True)
    (parent / "cgroup.controllers").write_text("cpu io memory pids")
    (parent / "cgroup.subtree_control").write_text("memory pids")
    monkeypatch.setattr(Path, "write_text", _only_inside(Path.write_text))
    monkeypatch.setenv("CONTROL_GROUPS", "nested")
    group = cgroups.ControlGroup(tmp_path / "mounts", tmp_path / "own")
    assert [folder.parent for folder in group.folders] == [parent]
    group.close()


def _only_inside(write):
    """Make kernel files keep their meaning when +memory is written to them."""

    def write_text(path: Path, text: str) -> int:
        return 0 if path.name == "cgroup.subtree_control" else write(path, text)

    return write_text


def test_the_group_of_a_program_that_was_killed_is_swept_up(tmp_path: Path):
    mounts, own = version_1(tmp_path, "/")
    dead = mounts / "pids" / f"{cgroups.PREFIX}99999999-abcd"
    dead.mkdir()
    cgroups.ControlGroup(mounts, own).close()
    assert not dead.exists()
