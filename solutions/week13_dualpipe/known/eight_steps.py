# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% all_of_step_six of="right_as_taught"
"""Wrong: every backward of step 6 leaves its W."""

# -    words += [word if place <= to_end else word.replace("B", "I") for place, word in enumerate(ends)]
# +    words += [word if place < 0 else word.replace("B", "I") for place, word in enumerate(ends)]

# -    return words + ["W"] * (to_end + 1)
# +    return words + ["W"] * (2 * to_end + 2)

# %% never_overlaps of="right_as_taught"
"""Wrong: runs every F and B one by one."""

# -    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
# +    main = ["Fn", "Bf", "Ff", "Bn"] * (num_microbatches - 2 * length + to_end + 1)

# %% no_zero_bubble_at_the_end of="right_as_taught"
"""Wrong: step 6 has full backwards only."""

# -    words += [word if place <= to_end else word.replace("B", "I") for place, word in enumerate(ends)]
# -    words += ["W", "In"] * to_middle
# -    return words + ["W"] * (to_end + 1)
# +    words += ends
# +    return words + ["Bn"] * to_middle

# %% one_turn_short of="right_as_taught"
"""Wrong: step 4 has one turn too few."""

# -    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
# +    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end)

# %% overlaps_the_first_pair of="right_as_taught"
"""Wrong: the middle rank overlaps its first pair too."""

# -    words += main if to_middle else ["Fn", "Bf", *main[1:]]
# +    words += main

# %% step_three_without_weights of="right_as_taught"
"""Wrong: step 3 puts its W off."""

# -    words += ["If", "W", "Ff"] * to_middle
# +    words += ["If", "Ff"] * to_middle

# -    return words + ["W"] * (to_end + 1)
# +    return words + ["W"] * length

# %% streams_swapped of="right_as_taught"
"""Wrong: near for far in the steady state."""

# -    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
# +    main = ["Ff&Bn", "Fn&Bf"] * (num_microbatches - 2 * length + to_end + 1)

# %% two_ranks_deep of="right_as_taught"
"""Wrong: right for half pipelines of two ranks."""

# -    to_middle = length - 1 - to_end
# +    to_middle = 1 - to_end

# %% warm_up_too_short of="right_as_taught"
"""Wrong: step 1 fills the way to the middle, not back."""

# -    words = ["Fn"] * (2 * to_middle)
# +    words = ["Fn"] * to_middle

# %% right_loops
"""Different: one loop a step, a tuple at the end."""


def eight_steps(to_end, length, num_microbatches):
    hops, words = length - to_end - 1, []
    for _ in range(hops):
        words.extend(("Fn", "Fn"))
    for _ in range(to_end + 1):
        words.extend(("Fn", "Ff"))
    for _ in range(hops):
        words.extend(("If", "W", "Ff"))
    for turn in range(num_microbatches - 2 * length + to_end + 1):
        words.extend(("Fn", "Bf") if turn == hops == 0 else ("Fn&Bf",))
        words.append("Ff&Bn")
    for _ in range(hops):
        words.extend(("Bf", "Ff&Bn"))
    for place in range(2 * (to_end + 1)):
        words.append(("B" if place <= to_end else "I") + "fn"[place % 2])
    for _ in range(hops):
        words.extend(("W", "In"))
    waiting = sum(word[0] == "I" for word in words) - words.count("W")
    return tuple(words + ["W"] * waiting)


# %% right_one_sum
"""Different: one sum of multiplied texts, split at the end."""


def eight_steps(to_end, length, num_microbatches):
    c, e = length - 1 - to_end, to_end + 1
    steady = "Fn&Bf Ff&Bn " * (num_microbatches - 2 * length + e)
    if not c:
        steady = steady.replace("&", " ", 1)
    ends = ("Bf Bn " * e).split()
    late = [word.replace("B", "I") for word in ends[e:]]
    first = "Fn " * (2 * c) + "Fn Ff " * e + "If W Ff " * c + steady + "Bf Ff&Bn " * c
    return first.split() + ends[:e] + late + ("W In " * c + "W " * e).split()
