"""Different: counts, indexes, and a list of the I."""


def slots_of(words, stages, streams):
    count, owed, texts = {}, [], []
    for word in words:
        slot = []
        for part in word.split("&"):
            if part == "W":
                stage, m = owed.pop(0)
                slot.append(f"{stage}W{m}")
                continue
            key = (part[0] == "F", part[1])
            count[key] = count.get(key, -1) + 1
            stage, m = stages[part[1]], streams[part[1]][count[key]]
            owed += [(stage, m)] if part[0] == "I" else []
            slot.append(f"{stage}{part[0]}{m}")
        texts.append("".join(slot) if len(slot) < 2 else "(" + ";".join(slot) + ")OVERLAP_F_B")
    return tuple(texts)
