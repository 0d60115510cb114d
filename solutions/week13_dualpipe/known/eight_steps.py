# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% all_of_step_six of="right_as_taught"
"""Wrong: every backward of step 6 leaves its W."""

# -    half = len(ends) // 2
# +    half = 0

# %% never_overlaps of="right_as_taught"
"""Wrong: runs every F and B one by one."""

# -    main = ["Fn&Bf", "Ff&Bn"] * left("Fn")
# +    main = ["Fn", "Bf", "Ff", "Bn"] * left("Fn")

# %% no_zero_bubble_at_the_end of="right_as_taught"
"""Wrong: step 6 has full backwards only."""

# -    half = len(ends) // 2
# -    words += ends[:half] + [word.replace("B", "I") for word in ends[half:]]
# -    words += ["W", "In"] * left("Bn", "In")
# -    return words + ["W"] * (words.count("If") + words.count("In") - words.count("W"))
# +    words += ends
# +    return words + ["Bn"] * left("Bn")

# %% one_turn_short of="right_as_taught"
"""Wrong: step 4 has one turn too few."""

# -    main = ["Fn&Bf", "Ff&Bn"] * left("Fn")
# +    main = ["Fn&Bf", "Ff&Bn"] * (left("Fn") - 1)

# %% overlaps_the_first_pair of="right_as_taught"
"""Wrong: the middle rank overlaps its first pair too."""

# -    words += main if to_middle else ["Fn", "Bf", *main[1:]]
# +    words += main

# %% step_three_without_weights of="right_as_taught"
"""Wrong: step 3 puts its W off."""

# -    words += ["If", "W", "Ff"] * to_middle
# +    words += ["If", "Ff"] * to_middle

# %% step_three_keeps_the_lead of="right_as_taught"
"""Wrong: near forwards stay 2c ahead, as if every slot of the steady state started one."""

# -    words += ["If", "W", "Ff"] * to_middle
# +    words += ["If", "W", "Fn", "Ff"] * to_middle

# %% step_three_closes_the_lead of="right_as_taught"
"""Wrong: near forwards lose their whole lead of 2c."""

# -    words += ["If", "W", "Ff"] * to_middle
# +    words += ["If", "W", "Ff"] * (2 * to_middle)

# %% to_the_end_but_not_back of="right_as_taught"
"""Wrong: step 2 counts the hops to the end, and forgets the gradient's way back."""

# -    words += ["Fn", "Ff"] * (to_end + 1)
# +    words += ["Fn", "Ff"] * (to_end // 2 + 1)

# %% an_i_is_no_backward of="right_as_taught"
"""Wrong: counts the backwards that are left without those of step 3."""

# -    ends = ["Bf", "Bn"] * left("Bf", "If")
# +    ends = ["Bf", "Bn"] * left("Bf")

# %% streams_swapped of="right_as_taught"
"""Wrong: near for far in the steady state."""

# -    main = ["Fn&Bf", "Ff&Bn"] * left("Fn")
# +    main = ["Ff&Bn", "Fn&Bf"] * left("Fn")

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
