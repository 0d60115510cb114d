"""Different: all checksums compared at once."""

import hashlib
import json
import re


def newest_complete(folders):
    def is_complete(files):
        try:
            manifest = json.loads(files.get("manifest.json", ""))
        except ValueError:
            return False
        sums = manifest["sha256"]
        found = {name: hashlib.sha256(files[name].encode()).hexdigest() for name in sums if name in files}
        return found == sums and len(sums) == manifest["ranks"]

    steps = {int(name[5:]): name for name in folders if re.fullmatch(r"step-\d+", name)}
    return next((steps[step] for step in sorted(steps, reverse=True) if is_complete(folders[steps[step]])), None)
