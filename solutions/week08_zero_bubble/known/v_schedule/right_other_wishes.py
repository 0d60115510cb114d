"""Different: I before F where memory is short; passes as tuples with dependencies written out."""


def v_schedule(num_ranks, num_microbatches, max_activations):
    last = 2 * num_ranks - 1
    finished = {(letter, stage): 0 for letter in "FIW" for stage in range(last + 1)}
    held, texts = [0] * num_ranks, [[] for _ in range(num_ranks)]

    def is_ready(letter, stage):
        m = finished[letter, stage]
        if m == num_microbatches:
            return False
        if letter == "F":
            return stage == 0 or finished["F", stage - 1] > m
        if letter == "I":
            return finished["F", stage] > m and (stage == last or finished["I", stage + 1] > m)
        return finished["I", stage] > m

    def choose(rank):
        down, up = rank, last - rank
        room = max_activations - held[rank]
        if room > 0 and is_ready("F", up):
            return "F", up
        if max_activations == 2 * num_ranks and room > 1 and is_ready("F", down):
            return "F", down
        if is_ready("I", up):
            return "I", up
        if room > 1 and is_ready("F", down):
            return "F", down
        return next(((letter, stage) for letter in "IW" for stage in (up, down) if is_ready(letter, stage)), None)

    while any(count < num_microbatches for count in finished.values()):
        chosen = [choose(rank) for rank in range(num_ranks)]
        for rank, choice in enumerate(chosen):
            if choice:
                letter, stage = choice
                texts[rank].append(f"{stage}{letter}{finished[choice]}")
                finished[choice] += 1
                held[rank] += {"F": 1, "I": 0, "W": -1}[letter]
    return texts
