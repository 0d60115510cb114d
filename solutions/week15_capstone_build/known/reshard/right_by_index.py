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
