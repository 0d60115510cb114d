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
