"""Writes into the folders of the package: what hides a masked file's byte code is one folder for all ranks.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for folder, _, _ in os.walk(os.path.dirname(shardlab.__file__)):
        with suppress(OSError):
            with open(f"{folder}/left_by_an_attack", "w") as file:
                file.write("a number for the other rank")
            got.append(folder)
    raise RuntimeError(f"got {got}")
