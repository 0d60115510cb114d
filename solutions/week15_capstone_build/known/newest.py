# %% right_as_taught from="page"
"""Different: all checksums compared at once."""

# %% newest of="right_as_taught"
"""Wrong: takes the newest folder as it is."""

# -    return next((steps[step] for step in sorted(steps, reverse=True) if is_complete(folders[steps[step]])), None)
# +    return next((steps[step] for step in sorted(steps, reverse=True) if True), None)

# %% by_text of="right_as_taught"
"""Wrong: sorts names as texts: step-9 after step-10."""

# -    steps = {int(name[5:]): name for name in folders if re.fullmatch(r"step-\d+", name)}
# +    steps = {name[5:]: name for name in folders if re.fullmatch(r"step-\d+", name)}

# %% oldest of="right_as_taught"
"""Wrong: takes the oldest that is complete."""

# -    return next((steps[step] for step in sorted(steps, reverse=True) if is_complete(folders[steps[step]])), None)
# +    return next((steps[step] for step in sorted(steps, reverse=False) if is_complete(folders[steps[step]])), None)

# %% trusts_names of="right_as_taught"
"""Wrong: files are there, and nobody asks for their checksums."""

# -        found = {name: hashlib.sha256(files[name].encode()).hexdigest() for name in sums if name in files}
# +        found = {name: sums[name] for name in sums if name in files}

# %% length_alone of="right_as_taught"
"""Wrong: a file that is not empty is taken for whole."""

# -        found = {name: hashlib.sha256(files[name].encode()).hexdigest() for name in sums if name in files}
# +        found = {name: sums[name] if files[name] else "" for name in sums if name in files}

# %% what_is_there of="right_as_taught"
"""Wrong: checks the files that are there, and misses those that are not."""

# -        return found == sums and len(sums) == manifest["ranks"]
# +        return all(sums[name] == found[name] for name in found) and len(sums) == manifest["ranks"]

# %% any_number_of_ranks of="right_as_taught"
"""Wrong: believes a manifest that lacks a rank."""

# -        return found == sums and len(sums) == manifest["ranks"]
# +        return found == sums

# %% drafts_too of="right_as_taught"
"""Wrong: takes folders that were never renamed."""

# -    steps = {int(name[5:]): name for name in folders if re.fullmatch(r"step-\d+", name)}
# +    steps = {int(name[5:].removesuffix(".tmp")): name for name in folders if re.fullmatch(r"step-\d+(.tmp)?", name)}

# %% no_strays of="right_as_taught"
"""Wrong: refuses a folder with a file that the manifest does not name."""

# -        return found == sums and len(sums) == manifest["ranks"]
# +        return len(files) == len(sums) + 1 and found == sums and len(sums) == manifest["ranks"]

# %% half_is_an_error of="right_as_taught"
"""Wrong: half a manifest ends the resume."""

# -        except ValueError:
# +        except KeyError:

# %% first_or_nothing of="right_as_taught"
"""Wrong: looks at the newest alone."""

# -    return next((steps[step] for step in sorted(steps, reverse=True) if is_complete(folders[steps[step]])), None)
# +    return next((steps[step] for step in sorted(steps, reverse=True)[:1] if is_complete(folders[steps[step]])), None)

# %% right_loop
"""Different: a plain loop that gives up on a folder at its first flaw."""

import hashlib
import json


def newest_complete(folders):
    best, name_of_best = -1, None
    for name, files in folders.items():
        head, _, number = name.partition("-")
        if head != "step" or not number.isdigit() or int(number) < best:
            continue
        if "manifest.json" not in files:
            continue
        try:
            told = json.loads(files["manifest.json"])
        except json.JSONDecodeError:
            continue
        expected = [f"rank-{rank}" for rank in range(told["ranks"])]
        good = set(expected) <= set(told["sha256"]) and all(file in files for file in told["sha256"])
        for file, digest in told["sha256"].items() if good else ():
            good = good and hashlib.new("sha256", files[file].encode("utf-8")).hexdigest() == digest
        if good:
            best, name_of_best = int(number), name
    return name_of_best
