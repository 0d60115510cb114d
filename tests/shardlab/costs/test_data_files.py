"""The published numbers travel with the package, and the README beside them names every file and every source."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

from setuptools import find_packages
from shardlab.costs.validation.published import RUNS, read_rows

ROOT = Path(__file__).parents[3]
DATA = RUNS.parent


def test_a_wheel_takes_every_data_file():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setuptools["package-data"]["shardlab.costs"]
    assert "shardlab.costs" in find_packages(ROOT / "labs")  # as setup.py finds them
    files = [path.relative_to(DATA.parent).as_posix() for path in DATA.iterdir()]
    assert {"data/published_runs.csv", "data/single_node_a100_steps.csv", "data/README.md"} <= set(files)
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in patterns)] == []


def test_the_readme_names_files_and_sources():
    text = (DATA / "README.md").read_text()
    assert [path.name for path in DATA.glob("*.csv") if f"`{path.name}`" not in text] == []
    families = {row["id"].split("-")[0] for row in read_rows(RUNS)}
    assert [family for family in sorted(families) if f"`{family}`" not in text] == []
