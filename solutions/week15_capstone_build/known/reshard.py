# %% right_as_taught from="page"
"""Different: areas are counted down."""

# %% local_layers of="right_as_taught"
"""Wrong: takes layers by their local numbers (Megatron-LM#7452, finding 12)."""

# -        return one["first_layer"] + one["layer"], expert, one["part"]
# +        return one["layer"], expert, one["part"]

# %% local_experts of="right_as_taught"
"""Wrong: takes experts by their local numbers."""

# -        expert = one["first_expert"] + one["expert"] if one["expert"] >= 0 else -1
# +        expert = one["expert"] if one["expert"] >= 0 else -1

# %% expert_minus_one of="right_as_taught"
"""Wrong: adds first_expert to what is no expert."""

# -        expert = one["first_expert"] + one["expert"] if one["expert"] >= 0 else -1
# +        expert = one["expert"]

# %% reads_replicas of="right_as_taught"
"""Wrong: reads every copy."""

# -        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:
# +        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1]:

# %% copies_as_list of="right_as_taught"
"""Wrong: reads every copy, in a list."""

# -        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:
# -            found[block] = [number, rows, columns]
# +        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and number not in found:
# +            found[number] = [number, rows, columns]

# %% whole_pieces of="right_as_taught"
"""Wrong: reads whole saved pieces, more than is wanted."""

# -            found[block] = [number, rows, columns]
# +            found[block] = [number, one["rows"], one["columns"]]

# %% local_columns of="right_as_taught"
"""Wrong: counts columns from the begin of the saved piece."""

# -            found[block] = [number, rows, columns]
# +            found[block] = [number, rows, [column - one["columns"][0] for column in columns]]

# %% holes of="right_as_taught"
"""Wrong: does not notice what is missing."""

# -    return None if missing else list(found.values())
# +    return list(found.values())

# %% same_piece_alone of="right_as_taught"
"""Wrong: finds only pieces that are cut alike."""

# -        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:
# +        if one["columns"] == piece["columns"] and one["rows"] == piece["rows"] and name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:

# %% any_part of="right_as_taught"
"""Wrong: takes any tensor of the layer."""

# -        return one["first_layer"] + one["layer"], expert, one["part"]
# +        return one["first_layer"] + one["layer"], expert

# %% nothing of="right_as_taught"
"""Wrong: always None."""

# -    return None if missing else list(found.values())
# +    return None

# %% columns_alone of="right_as_taught"
"""Wrong: cuts columns and forgets rows."""

#          rows, columns = (both(piece[axis], one[axis]) for axis in ("rows", "columns"))
# +        rows = piece["rows"]

# %% right_by_index
"""Different: an index of all tensors, and numbers of the matrix marked one by one."""

from collections import defaultdict

import torch


def key(one):
    expert = None if one["expert"] < 0 else one["first_expert"] + one["expert"]
    return one["part"], one["layer"] + one["first_layer"], expert


def all_reads(saved, wanted):
    homes = defaultdict(list)
    for number, one in enumerate(saved):
        homes[key(one)].append(number)
    answers = []
    for piece in wanted:
        open_places = torch.zeros(64, 64, dtype=torch.bool)
        open_places[slice(*piece["rows"]), slice(*piece["columns"])] = True
        answer = []
        for number in homes[key(piece)]:
            top, left = (max(piece[axis][0], saved[number][axis][0]) for axis in ("rows", "columns"))
            bottom, right = (min(piece[axis][1], saved[number][axis][1]) for axis in ("rows", "columns"))
            if top < bottom and left < right and open_places[top:bottom, left:right].any():
                open_places[top:bottom, left:right] = False
                answer.append([number, [top, bottom], [left, right]])
        answers.append(None if open_places.any() else answer)
    return answers
