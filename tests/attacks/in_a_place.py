"""Judge some attacks and honest answers from this file's folder: `python in_a_place.py LEVEL FOLDER` prints JSON.

`test_elsewhere.py` runs it with other Pythons, from copies of the course, as other users.
"""

import json
import os
import sys
from pathlib import Path

import suite
from honeypot import SECRET, laid_out

from autograder.judging.judge import Judge
from autograder.sandboxes import zygote

CHOSEN = (
    "tampering/installed_packages",
    "tampering/plants_a_module",
    "tampering/writes_anywhere",
    "reading/solutions_on_disk",
    "reading/gradebook",
    "reading/environment",
)


def main(wanted: int, folder: Path) -> dict[str, str | None]:
    """Return unexpected results by case; nothing hostile runs if the level does not start."""
    if (reason := zygote.why_not(wanted)) is not None:
        return {"level": reason}
    os.environ["AUTOGRADER_LEVEL"] = str(wanted)
    assert zygote.level() == wanted
    wrong: dict[str, str | None] = {}
    with laid_out(folder / "honeypot") as pot, Judge() as judge:
        for case in suite.load():
            if case.name in CHOSEN:
                wrong[case.name] = suite.wrong_with(case, suite.judge_case(case, judge, folder, pot.places), SECRET)
        wrong["an honest answer"] = suite.honest_answer(judge)
    return wrong | {"host": None if pot.is_untouched else str(pot)}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))))
